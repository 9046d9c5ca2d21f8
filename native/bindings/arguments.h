// The arguments of one op call, as C++ values. Errors name the op and the argument.
#pragma once

#include <forward_list>
#include <optional>

#include "bindings/fast_call.h"
#include "bindings/python.h"
#include "core/array.h"

namespace gpk::bind {

// In the order of the signature. Arrays and objects are borrowed: the call keeps them alive.
class Arguments {
 public:
  Arguments(const FastSignature& signature, PyObject* const* args, Py_ssize_t num_args,
            PyObject* keywords)
      : signature_(signature) {
    signature.bind(args, num_args, keywords, slots_);
  }

  [[nodiscard]] const char* op() const noexcept { return signature_.function(); }
  [[nodiscard]] int size() const noexcept { return signature_.size(); }
  [[nodiscard]] const char* name(int i) const noexcept { return signature_.name(i); }
  [[nodiscard]] py::handle operator[](int i) const noexcept { return slots_[i]; }
  [[nodiscard]] bool is_none(int i) const noexcept { return slots_[i] == Py_None; }
  [[nodiscard]] bool is_default(int i) const noexcept {
    return slots_[i] == signature_.default_of(i);
  }

  [[nodiscard]] const Array& array(int i) const;
  // A GPUArray, or what asarray() makes of a list or tuple of numbers: on the device of the first
  // array among the arguments, else on the default one. It lives as long as these arguments.
  [[nodiscard]] const Array& array_like(int i) const;
  [[nodiscard]] const Array& array_like(int i, const Array& beside) const;
  [[nodiscard]] std::optional<Array> optional_array(int i) const;
  [[nodiscard]] std::optional<Array> optional_array_like(int i) const;
  [[nodiscard]] std::int64_t integer(int i) const;
  [[nodiscard]] std::optional<std::int64_t> optional_integer(int i) const;
  [[nodiscard]] Dims integers(int i) const;  // one integer or a sequence
  [[nodiscard]] std::optional<Dims> optional_integers(int i) const;
  [[nodiscard]] Dims shape(int i) const;
  [[nodiscard]] bool flag(int i) const;  // anything with a truth value except text and containers
  [[nodiscard]] std::optional<bool> optional_flag(int i) const;  // True, False or None
  [[nodiscard]] double number(int i) const;
  [[nodiscard]] std::string text(int i) const;
  [[nodiscard]] DType dtype(int i) const;
  [[nodiscard]] std::optional<DType> optional_dtype(int i) const;
  [[nodiscard]] Device device(int i) const;
  [[nodiscard]] std::optional<Array> out(int i) const;

  [[noreturn]] void refuse(int i, const char* expected) const;

 private:
  const FastSignature& signature_;
  PyObject* slots_[FastSignature::kMaxArguments];
  mutable std::forward_list<Array> made_;  // of lists
};

}  // namespace gpk::bind
