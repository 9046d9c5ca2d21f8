#include "bindings/bind.h"

namespace gpk::bind {

void bind_random(py::module_&) {}

}  // namespace gpk::bind
