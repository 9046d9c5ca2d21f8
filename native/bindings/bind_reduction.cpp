#include "bindings/bind.h"

namespace gpk::bind {

void bind_reduction(py::module_&) {}

}  // namespace gpk::bind
