#include "bindings/bind.h"

namespace gpk::bind {

void bind_indexing(py::module_&) {}

}  // namespace gpk::bind
