#include "bindings/bind.h"

namespace gpk::bind {

void bind_interop(py::module_&) {}

}  // namespace gpk::bind
