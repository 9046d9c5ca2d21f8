// printf and assert of device code.
#include <bit>
#include <cstdio>

#include "sim/machine.h"
#include "sim/warp_ops.h"

namespace gpk::sim {
namespace {

constexpr std::size_t kMaxText = 1 << 16;

std::string text_at(Warp& warp, std::uint64_t address, unsigned lane) {
  std::string text;
  for (; text.size() < kMaxText; ++address) {
    const auto c = static_cast<char>(*generic_bytes(warp, address, 1, lane));
    if (c == '\0') break;
    text.push_back(c);
  }
  return text;
}

template <class T>
T argument(Warp& warp, std::uint64_t& at, unsigned lane) {
  at = (at + sizeof(T) - 1) & ~std::uint64_t{sizeof(T) - 1};
  T value;
  std::memcpy(&value, generic_bytes(warp, at, sizeof(T), lane), sizeof(T));
  at += sizeof(T);
  return value;
}

std::string formatted(Warp& warp, const std::string& format, std::uint64_t args, unsigned lane) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out.push_back(format[i]);
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == '%') {
      out.push_back('%');
      ++i;
      continue;
    }
    std::string spec = "%";
    std::size_t k = i + 1;
    int longs = 0;
    for (; k < format.size(); ++k) {
      const char c = format[k];
      if (c == 'l' || c == 'j' || c == 'z' || c == 't') {
        longs += 1;
      } else if (c == 'h') {
        // promoted to int
      } else if (c == '*') {
        spec += std::to_string(argument<std::int32_t>(warp, args, lane));
      } else if ((c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == ' ' ||
                 c == '#') {
        spec.push_back(c);
      } else {
        break;
      }
    }
    if (k >= format.size() || spec.size() > 24) {
      out += format.substr(i);
      break;
    }
    char buffer[512];
    const char kind = format[k];
    buffer[0] = '\0';
    switch (kind) {
      case 'd':
      case 'i': {
        const long long value = longs > 0 ? argument<std::int64_t>(warp, args, lane)
                                          : argument<std::int32_t>(warp, args, lane);
        std::snprintf(buffer, sizeof buffer, (spec + "lld").c_str(), value);
        break;
      }
      case 'u':
      case 'x':
      case 'X':
      case 'o': {
        const unsigned long long value = longs > 0 ? argument<std::uint64_t>(warp, args, lane)
                                                   : argument<std::uint32_t>(warp, args, lane);
        std::snprintf(buffer, sizeof buffer, (spec + "ll" + kind).c_str(), value);
        break;
      }
      case 'c':
        std::snprintf(buffer, sizeof buffer, (spec + "c").c_str(),
                      argument<std::int32_t>(warp, args, lane));
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        std::snprintf(buffer, sizeof buffer, (spec + kind).c_str(),
                      argument<double>(warp, args, lane));
        break;
      case 'p':
        std::snprintf(buffer, sizeof buffer, "0x%llx",
                      static_cast<unsigned long long>(argument<std::uint64_t>(warp, args, lane)));
        break;
      case 's': {
        const std::string text = text_at(warp, argument<std::uint64_t>(warp, args, lane), lane);
        if (spec == "%")
          out += text;
        else
          std::snprintf(buffer, sizeof buffer, (spec + "s").c_str(), text.c_str());
        break;
      }
      default: out += format.substr(i, k - i + 1); break;
    }
    out += buffer;
    i = k;
  }
  return out;
}

}  // namespace

std::uint64_t call_argument(const Op& op, const Warp& warp, unsigned index, unsigned lane) {
  const std::int32_t* args = warp.frame->function->args.data() + op.args;
  std::uint64_t value = 0;
  const auto bytes = static_cast<std::size_t>(args[2 + 2 * index]);
  std::memcpy(&value, warp.regs + args[1 + 2 * index] + bytes * lane,
              std::min<std::size_t>(bytes, 8));
  return value;
}

void print(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* args = warp.frame->function->args.data() + op.args;
  const std::int32_t* results = args + 1 + 2 * args[0];
  for_lanes(mask, [&](unsigned lane) {
    const std::string format = text_at(warp, call_argument(op, warp, 0, lane), lane);
    const std::string text = formatted(warp, format, call_argument(op, warp, 1, lane), lane);
    {
      const std::lock_guard lock(warp.grid->mutex);
      if (warp.grid->options->print)
        warp.grid->options->print(text);
      else
        std::fwrite(text.data(), 1, text.size(), stdout);
    }
    if (results[0] > 0) {
      const auto count = static_cast<std::uint32_t>(text.size());
      std::memcpy(warp.regs + results[1] + static_cast<std::size_t>(results[2]) * lane, &count,
                  std::min<std::size_t>(4, static_cast<std::size_t>(results[2])));
    }
  });
}

void assert_fail(const Op& op, Warp& warp, std::uint32_t mask) {
  const auto lane = static_cast<unsigned>(std::countr_zero(mask));
  const std::string message = text_at(warp, call_argument(op, warp, 0, lane), lane);
  const std::string file = text_at(warp, call_argument(op, warp, 1, lane), lane);
  const auto line = static_cast<std::uint32_t>(call_argument(op, warp, 2, lane));
  throw Fault{"assert", lane, file + ":" + std::to_string(line) + ": assertion failed: " + message};
}

}  // namespace gpk::sim
