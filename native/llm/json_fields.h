// The fields of config.json, with errors that name them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace gpk::llm {

[[noreturn]] void refuse_field(const char* field, const Json& value, const char* expected);

// An object's fields, and those of `defaults` where it has none of that name; null counts as not
// given. All throw InvalidArgument for values of another kind.
class JsonFields {
 public:
  explicit JsonFields(const Json& object, const Json* defaults = nullptr)
      : object_(object), defaults_(defaults) {}

  [[nodiscard]] const Json* find(const char* field) const;
  // Throws InvalidArgument where it is not given, too.
  [[nodiscard]] std::int64_t integer(const char* field) const;
  [[nodiscard]] std::int64_t integer(const char* field, std::int64_t otherwise) const;
  [[nodiscard]] double number(const char* field, double otherwise) const;
  [[nodiscard]] bool boolean(const char* field, bool otherwise) const;
  [[nodiscard]] std::string text(const char* field, const char* otherwise) const;
  [[nodiscard]] std::vector<double> numbers(const char* field) const;

 private:
  const Json& object_;
  const Json* defaults_;
};

}  // namespace gpk::llm
