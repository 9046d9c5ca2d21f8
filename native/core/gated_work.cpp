#include "core/gated_work.h"

namespace gpk::inline core {

void GatedWork::enter(Stream& stream) {
  if (stream.capturing()) return;  // recorded, not run: the replay passes the gate
  pass_ = stream.gate()->enter();
}

}  // namespace gpk::inline core
