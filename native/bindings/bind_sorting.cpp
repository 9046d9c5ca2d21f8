#include "bindings/bind.h"

namespace gpk::bind {

void bind_sorting(py::module_&) {}

}  // namespace gpk::bind
