#include "ops/matmul/contraction.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/result.h"
#include "ops/output.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops {
namespace {

struct Term {
  Array array;
  Labels labels;  // one per axis, all different
};

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

int place_of(const Labels& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

Labels concat(std::initializer_list<const Labels*> parts) {
  Labels all;
  for (const Labels* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

// In the order they have in `wanted`; others after them.
void order_by(Labels& labels, const Labels& wanted) {
  std::stable_sort(labels.begin(), labels.end(),
                   [&](int x, int y) { return place_of(wanted, x) < place_of(wanted, y); });
}

Array arranged(const Term& term, const Labels& order, const char* op) {
  Dims axes = Dims::filled(static_cast<int>(order.size()), 0);
  for (int i = 0; i < axes.size(); ++i)
    axes[i] = place_of(term.labels, order[static_cast<std::size_t>(i)]);
  return permute(term.array, axes, op);
}

Dims sizes_of(const Term& term, const Labels& labels) {
  Dims sizes = Dims::filled(static_cast<int>(labels.size()), 0);
  for (int i = 0; i < sizes.size(); ++i)
    sizes[i] = term.array.shape()[place_of(term.labels, labels[static_cast<std::size_t>(i)])];
  return sizes;
}

std::int64_t product(const Dims& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

Dims joined(std::initializer_list<Dims> parts) {
  std::vector<std::int64_t> all;
  for (const Dims& part : parts) all.insert(all.end(), part.begin(), part.end());
  return Dims(std::span<const std::int64_t>(all));
}

Term sum_away(const Term& term, const Labels& summed) {
  if (summed.empty()) return term;
  Labels kept;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (contains(summed, term.labels[i])) {
      axes.push_back(static_cast<std::int64_t>(i));
    } else {
      kept.push_back(term.labels[i]);
    }
  }
  ReduceOptions options;
  options.axes = Dims(std::span<const std::int64_t>(axes));
  options.dtype = term.array.dtype();
  return {reduce(OpId::sum, term.array, options), std::move(kept)};
}

// The contraction of two terms over all labels that are not in `needed`.
Term contract(Term left, Term right, const Labels& needed, const char* op) {
  const auto alone = [&](const Term& term, const Term& other) {
    Labels found;
    for (const int label : term.labels)
      if (!contains(other.labels, label) && !contains(needed, label)) found.push_back(label);
    return found;
  };
  left = sum_away(left, alone(left, right));
  right = sum_away(right, alone(right, left));
  Labels batch, summed, free_left, free_right;
  for (const int label : left.labels) {
    const bool shared = contains(right.labels, label);
    (!shared ? free_left : contains(needed, label) ? batch : summed).push_back(label);
  }
  for (const int label : right.labels)
    if (!contains(left.labels, label)) free_right.push_back(label);
  for (Labels* labels : {&batch, &free_left, &free_right}) order_by(*labels, needed);
  if (!free_left.empty() && !free_right.empty() &&
      place_of(needed, free_right[0]) < place_of(needed, free_left[0])) {
    std::swap(left, right);  // so that the result's axes are in the order asked for
    std::swap(free_left, free_right);
  }
  const Dims stack = sizes_of(left, batch);
  const Dims rows = sizes_of(left, free_left);
  const Dims columns = sizes_of(right, free_right);
  const std::int64_t depth = product(sizes_of(left, summed));
  const Array a = reshape(arranged(left, concat({&batch, &free_left, &summed}), op),
                          joined({stack, {product(rows), depth}}), op);
  const Array b = reshape(arranged(right, concat({&batch, &summed, &free_right}), op),
                          joined({stack, {depth, product(columns)}}), op);
  return {reshape(gemm::multiply_stacks(a, b, op), joined({stack, rows, columns}), op),
          concat({&batch, &free_left, &free_right})};
}

// One axis per label: repeated labels become a diagonal.
Term without_repeats(const Array& array, const Labels& labels, int number) {
  Labels unique;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  for (int i = 0; i < array.ndim(); ++i) {
    const int label = labels[static_cast<std::size_t>(i)];
    const auto at = static_cast<std::size_t>(place_of(unique, label));
    if (at == unique.size()) {
      unique.push_back(label);
      shape.push_back(array.shape()[i]);
      strides.push_back(array.strides()[i]);
      continue;
    }
    if (shape[at] != array.shape()[i])
      throw InvalidArgument(
          cat("einsum: dimensions in operand ", number, " for a repeated index don't match (",
              shape[at], " != ", array.shape()[i], "); it has shape ", to_string(array.shape())));
    strides[at] += array.strides()[i];
  }
  return {Array(Dims(std::span<const std::int64_t>(shape)),
                Dims(std::span<const std::int64_t>(strides)), array.dtype(), array.buffer(),
                array.offset_elems()),
          std::move(unique)};
}

std::string shapes_of(const std::vector<Array>& operands) {
  std::vector<std::string> shapes;
  for (const Array& operand : operands) shapes.push_back(to_string(operand.shape()));
  return join(shapes, " ");
}

std::map<int, std::int64_t> label_sizes(const std::vector<Term>& terms,
                                        const std::vector<Array>& operands) {
  std::map<int, std::int64_t> sizes;
  for (const Term& term : terms) {
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      const std::int64_t size = term.array.shape()[static_cast<int>(i)];
      std::int64_t& known = sizes.try_emplace(term.labels[i], size).first->second;
      if (known == 1) known = size;
      if (size != known && size != 1)
        throw InvalidArgument(
            cat("einsum: operands could not be broadcast together: an index has "
                "sizes ",
                known, " and ", size, ", the shapes are ", shapes_of(operands)));
    }
  }
  return sizes;
}

// Without the axes of size 1 that others broadcast.
Term without_broadcast(const Term& term, const std::map<int, std::int64_t>& sizes) {
  Labels kept;
  std::vector<std::int64_t> dropped;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (term.array.shape()[static_cast<int>(i)] == sizes.at(term.labels[i])) {
      kept.push_back(term.labels[i]);
    } else {
      dropped.push_back(static_cast<std::int64_t>(i));
    }
  }
  return {squeeze(term.array, Dims(std::span<const std::int64_t>(dropped)), "einsum"), kept};
}

void check_labels(const std::vector<Array>& operands, const std::vector<Labels>& labels,
                  const Labels& output) {
  if (operands.empty() || operands.size() != labels.size())
    throw InvalidArgument(
        cat("einsum: ", operands.size(), " operands, subscripts for ", labels.size()));
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (labels[i].size() != static_cast<std::size_t>(operands[i].ndim()))
      throw InvalidArgument(cat("einsum: operand ", i, " has shape ",
                                to_string(operands[i].shape()), ", its subscripts name ",
                                labels[i].size(), " dimensions"));
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (std::count(output.begin(), output.end(), output[i]) > 1)
      throw InvalidArgument("einsum: an output subscript appears more than once");
    const auto has = [&](const Labels& of) { return contains(of, output[i]); };
    if (std::none_of(labels.begin(), labels.end(), has))
      throw InvalidArgument("einsum: an output subscript never appeared in an input");
  }
}

DType common_dtype(const std::vector<Array>& operands) {
  DType dtype = operands[0].dtype();
  for (const Array& operand : operands) {
    gemm::check_operands(operands[0], operand, "einsum");
    dtype = promote_types(dtype, operand.dtype(), "einsum");
  }
  return dtype;
}

Dims output_shape(const Labels& output, const std::map<int, std::int64_t>& sizes) {
  Dims shape = Dims::filled(static_cast<int>(output.size()), 0);
  for (int i = 0; i < shape.size(); ++i) shape[i] = sizes.at(output[static_cast<std::size_t>(i)]);
  return shape;
}

}  // namespace

Array einsum(const std::vector<Array>& operands, const std::vector<Labels>& labels,
             const Labels& output, const std::optional<Array>& out) {
  constexpr const char* op = "einsum";
  check_labels(operands, labels, output);
  const DType dtype = common_dtype(operands);
  std::vector<Term> terms;
  for (std::size_t i = 0; i < operands.size(); ++i)
    terms.push_back(without_repeats(operands[i], labels[i], static_cast<int>(i)));
  const auto sizes = label_sizes(terms, operands);
  if (out) check_out(*out, output_shape(output, sizes), dtype, operands[0].device(), op);

  const auto prepared = [&](std::size_t i) {
    Term term = without_broadcast(terms[i], sizes);
    return Term{cast(term.array, dtype, op), std::move(term.labels)};
  };
  Term result = prepared(0);
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Labels needed = output;
    for (std::size_t later = i + 1; later < terms.size(); ++later)
      for (const int label : terms[later].labels)
        if (!contains(needed, label)) needed.push_back(label);
    result = contract(std::move(result), prepared(i), needed, op);
  }
  Labels rest;
  for (const int label : result.labels)
    if (!contains(output, label)) rest.push_back(label);
  const Array found = arranged(sum_away(result, rest), output, op);
  if (out) {
    copy_into(*out, found, op);
    return *out;
  }
  return operands.size() == 1 ? found : contiguous(found, op);
}

Array tensordot(const Array& x1, const Array& x2, const Dims& axes1, const Dims& axes2,
                const char* op) {
  const DType dtype = gemm::check_operands(x1, x2, op);
  const Dims from1 = normalize_axes(axes1, x1.ndim(), op);
  const Dims from2 = normalize_axes(axes2, x2.ndim(), op);
  bool fits = from1.size() == from2.size();
  for (int i = 0; fits && i < from1.size(); ++i)
    fits = x1.shape()[static_cast<int>(from1[i])] == x2.shape()[static_cast<int>(from2[i])];
  if (!fits)
    throw InvalidArgument(cat(op, ": shape-mismatch for sum: axes ", to_string(axes1), " of x1 ",
                              to_string(x1.shape()), ", axes ", to_string(axes2), " of x2 ",
                              to_string(x2.shape())));
  Term left{cast(x1, dtype, op), {}};
  Term right{cast(x2, dtype, op), {}};
  Labels needed;
  for (int i = 0; i < x1.ndim(); ++i) {
    left.labels.push_back(i);
    if (std::find(from1.begin(), from1.end(), i) == from1.end()) needed.push_back(i);
  }
  for (int i = 0; i < x2.ndim(); ++i) {
    const auto at = std::find(from2.begin(), from2.end(), i);
    const bool summed = at != from2.end();
    right.labels.push_back(summed ? static_cast<int>(from1[static_cast<int>(at - from2.begin())])
                                  : kMaxRank + i);
    if (!summed) needed.push_back(kMaxRank + i);
  }
  return contract(std::move(left), std::move(right), needed, op).array;
}

}  // namespace gpk::ops
