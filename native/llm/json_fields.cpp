#include "llm/json_fields.h"

#include "base/error.h"
#include "base/text.h"

namespace gpk::llm {

void refuse_field(const char* field, const Json& value, const char* expected) {
  throw InvalidArgument(cat("load: ", field, " of config.json is ", to_string(value.kind()),
                            ", expected ", expected));
}

const Json* JsonFields::find(const char* field) const {
  const Json* value = object_.find(field);
  if (value == nullptr && defaults_ != nullptr) value = defaults_->find(field);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::int64_t JsonFields::integer(const char* field) const {
  if (find(field) == nullptr)
    throw InvalidArgument(cat("load: config.json has no ", field, ", expected an integer"));
  return integer(field, 0);
}

std::int64_t JsonFields::integer(const char* field, std::int64_t otherwise) const {
  const Json* value = find(field);
  if (value == nullptr) return otherwise;
  const std::optional<std::int64_t> number = value->integer();
  if (!number) refuse_field(field, *value, "an integer");
  return *number;
}

double JsonFields::number(const char* field, double otherwise) const {
  const Json* value = find(field);
  if (value == nullptr) return otherwise;
  const std::optional<double> number = value->number();
  if (!number) refuse_field(field, *value, "a number");
  return *number;
}

bool JsonFields::boolean(const char* field, bool otherwise) const {
  const Json* value = find(field);
  if (value == nullptr) return otherwise;
  const std::optional<bool> flag = value->boolean();
  if (!flag) refuse_field(field, *value, "true or false");
  return *flag;
}

std::string JsonFields::text(const char* field, const char* otherwise) const {
  const Json* value = find(field);
  if (value == nullptr) return otherwise;
  if (value->string() == nullptr) refuse_field(field, *value, "a string");
  return *value->string();
}

std::vector<double> JsonFields::numbers(const char* field) const {
  std::vector<double> result;
  const Json* value = find(field);
  if (value == nullptr) return result;
  if (value->items() == nullptr) refuse_field(field, *value, "an array of numbers");
  for (const Json& item : *value->items()) {
    if (!item.number()) refuse_field(field, item, "an array of numbers");
    result.push_back(*item.number());
  }
  return result;
}

}  // namespace gpk::llm
