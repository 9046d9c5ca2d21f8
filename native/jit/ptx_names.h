// Registers and labels in PTX, written as how long ago they were new. Instantiations of one kernel
// differ mostly in their numbers; without them they are the same text, which a compressor stores
// once.
#pragma once

#include <string>
#include <string_view>

namespace gpk::jit {

// Codes every register of a `.reg` declaration with a count ("%r<9>") and every "$L__BB" label.
std::string code_names(std::string_view ptx);

// The program that was coded, with its names numbered in order of appearance; all other text is as
// it was. Throws Error for a code of a name that was never new.
std::string restore_names(std::string_view coded);

}  // namespace gpk::jit
