#include "bindings/bind.h"

namespace gpk::bind {

void bind_view(py::module_&) {}

}  // namespace gpk::bind
