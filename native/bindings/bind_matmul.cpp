#include "bindings/bind.h"

namespace gpk::bind {

void bind_matmul(py::module_&) {}

}  // namespace gpk::bind
