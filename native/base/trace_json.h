// JSON strings and numbers.
#pragma once

#include <string>
#include <string_view>

namespace gpk::inline base {

// Appends `text` as a JSON string with its quotes. Control characters are escaped; bytes that are
// not UTF-8 become U+FFFD, so that the result is valid whatever the text is.
void append_json_string(std::string& out, std::string_view text);

// Appends a number; 0 when it is not finite, which JSON cannot express.
void append_json_number(std::string& out, double value);

}  // namespace gpk::inline base
