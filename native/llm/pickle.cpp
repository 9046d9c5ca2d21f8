#include "llm/pickle.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <unordered_map>

#include "base/error.h"
#include "base/little_endian.h"
#include "base/text.h"
#include "base/utf8.h"
#include "llm/safetensors_header.h"

namespace gpk::llm {
namespace {

// The names that Python's pickletools give.
const char* opcode_name(unsigned char code) {
  switch (code) {
    case '0': return "POP";
    case '1': return "POP_MARK";
    case '2': return "DUP";
    case 'F': return "FLOAT";
    case 'I': return "INT";
    case 'L': return "LONG";
    case 'P': return "PERSID";
    case 'S': return "STRING";
    case 'T': return "BINSTRING";
    case 'U': return "SHORT_BINSTRING";
    case 'V': return "UNICODE";
    case 'B': return "BINBYTES";
    case 'C': return "SHORT_BINBYTES";
    case 'd': return "DICT";
    case 'g': return "GET";
    case 'i': return "INST";
    case 'l': return "LIST";
    case 'o': return "OBJ";
    case 'p': return "PUT";
    case 0x81: return "NEWOBJ";
    case 0x82: return "EXT1";
    case 0x83: return "EXT2";
    case 0x84: return "EXT4";
    case 0x8b: return "LONG4";
    case 0x8e: return "BINBYTES8";
    case 0x8f: return "EMPTY_SET";
    case 0x90: return "ADDITEMS";
    case 0x91: return "FROZENSET";
    case 0x92: return "NEWOBJ_EX";
    case 0x96: return "BYTEARRAY8";
    case 0x97: return "NEXT_BUFFER";
    case 0x98: return "READONLY_BUFFER";
    default: return nullptr;
  }
}

class Machine {
 public:
  Machine(std::string_view bytes, GlobalFilter allowed, const std::string& what)
      : bytes_(bytes), allowed_(allowed), what_(what) {}

  Pickle run() {
    while (!stopped_) {
      start_ = at_;
      step(byte());
    }
    if (at_ != bytes_.size())
      fail(cat("ends at byte ", at_, ", expected byte ", bytes_.size(), ", the end of the entry"));
    result_.root = stack_.back();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InvalidArgument(cat(what_, ": the pickle ", problem));
  }
  [[noreturn]] void fail_here(const std::string& problem) const {
    fail(cat("has ", problem, " at byte ", start_));
  }

  // --- bytes ---
  std::string_view take(std::size_t count) {
    if (count > bytes_.size() - at_) fail_here("an instruction that goes beyond its end");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  unsigned char byte() { return static_cast<unsigned char>(take(1)[0]); }
  std::uint64_t number(std::size_t count) { return little_endian(take(count)); }
  std::string_view text(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail_here("an instruction that goes beyond its end");
    const std::string_view value = take(static_cast<std::size_t>(count));
    if (utf8_prefix(value) != value.size()) fail_here("text that is not UTF-8");
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail_here("a name without an end");
    const std::string_view value = text(end - at_);
    ++at_;
    return value;
  }

  // --- values ---
  void push(PickleValue value) {
    if (result_.values.size() >= kMaxPickleValues)
      fail(cat("has more than ", kMaxPickleValues, " values"));
    stack_.push_back(static_cast<std::uint32_t>(result_.values.size()));
    result_.values.push_back(std::move(value));
  }
  void push(PickleKind kind) { push(PickleValue{kind, 0, 0.0, {}, {}}); }
  void push_int(std::int64_t value) { push({PickleKind::kInt, value, 0.0, {}, {}}); }
  void push_bool(bool value) { push({PickleKind::kBool, value ? 1 : 0, 0.0, {}, {}}); }
  void push_text(std::string_view value) { push({PickleKind::kText, 0, 0.0, value, {}}); }

  // Values above the last mark stay apart from those below it.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::uint32_t pop() {
    if (stack_.size() <= floor()) fail_here("an instruction that takes a value which is not there");
    const std::uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::uint32_t top() {
    const std::uint32_t value = pop();
    stack_.push_back(value);
    return value;
  }
  void mark() {
    if (marks_.size() >= kMaxPickleValues) fail(cat("has more than ", kMaxPickleValues, " marks"));
    marks_.push_back(stack_.size());
  }
  std::vector<std::uint32_t> pop_to_mark() {
    if (marks_.empty()) fail_here("an instruction that needs a mark");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::uint32_t> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_tuple(std::size_t count) {
    std::vector<std::uint32_t> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push({PickleKind::kTuple, 0, 0.0, {}, std::move(items)});
  }

  void add_items(const std::vector<std::uint32_t>& items, PickleKind kind) {
    const std::uint32_t index = top();
    PickleValue& value = result_.values[index];
    // An OrderedDict is a call whose result is filled: its items follow the two of the call.
    const bool ordered = kind == PickleKind::kDict && value.kind == PickleKind::kCall;
    if (value.kind != kind && !ordered)
      fail_here(kind == PickleKind::kDict ? "items for what is not a dict"
                                          : "items for what is not a list");
    if (kind == PickleKind::kDict && items.size() % 2 != 0) fail_here("a key without a value");
    num_items_ += items.size();
    if (num_items_ > kMaxPickleValues) fail(cat("has more than ", kMaxPickleValues, " items"));
    value.items.insert(value.items.end(), items.begin(), items.end());
  }

  void push_global(std::string name) {
    if (!allowed_(name)) {
      const std::size_t space = name.find(' ');
      fail_here(cat("a reference to ",
                    quoted_name(cat(name.substr(0, space), ".", name.substr(space + 1))),
                    ", which is not needed for tensors; nothing was imported or run;"));
    }
    names_.push_back(std::move(name));
    push({PickleKind::kGlobal, 0, 0.0, names_.back(), {}});
  }

  // --- memo ---
  void put(std::uint64_t key) {
    if (key > kMaxPickleValues) fail_here("a memo key that is too large");
    memo_[key] = top();
  }
  void get(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail_here(cat("a use of memo ", key, ", which is not set,"));
    stack_.push_back(found->second);
    if (stack_.size() > 2 * kMaxPickleValues) fail("has too many values on its stack");
  }

  void build() {
    const PickleValue& state = result_.values[pop()];
    const PickleValue& object = result_.values[top()];
    // Attributes of a state dict; they hold no tensors.
    if (state.kind != PickleKind::kDict || object.kind != PickleKind::kCall)
      fail_here("BUILD of what is not an OrderedDict");
  }

  void step(unsigned char code) {
    switch (code) {
      case 0x80: protocol(byte()); break;                                      // PROTO
      case 0x95: frame(number(8)); break;                                      // FRAME
      case '.': stop(); break;                                                 // STOP
      case '(': mark(); break;                                                 // MARK
      case 'N': push(PickleKind::kNone); break;                                // NONE
      case 0x88: push_bool(true); break;                                       // NEWTRUE
      case 0x89: push_bool(false); break;                                      // NEWFALSE
      case 'K': push_int(byte()); break;                                       // BININT1
      case 'M': push_int(static_cast<std::int64_t>(number(2))); break;         // BININT2
      case 'J': push_int(static_cast<std::int32_t>(number(4))); break;         // BININT
      case 0x8a: long_integer(byte()); break;                                  // LONG1
      case 'G': binary_float(); break;                                         // BINFLOAT
      case 'X': push_text(text(number(4))); break;                             // BINUNICODE
      case 0x8c: push_text(text(byte())); break;                               // SHORT_BINUNICODE
      case 0x8d: push_text(text(number(8))); break;                            // BINUNICODE8
      case ')': push(PickleKind::kTuple); break;                               // EMPTY_TUPLE
      case ']': push(PickleKind::kList); break;                                // EMPTY_LIST
      case '}': push(PickleKind::kDict); break;                                // EMPTY_DICT
      case 0x85: push_tuple(1); break;                                         // TUPLE1
      case 0x86: push_tuple(2); break;                                         // TUPLE2
      case 0x87: push_tuple(3); break;                                         // TUPLE3
      case 't': push({PickleKind::kTuple, 0, 0.0, {}, pop_to_mark()}); break;  // TUPLE
      default: step_more(code); break;
    }
  }

  void step_more(unsigned char code) {
    switch (code) {
      case 'a': add_items({pop()}, PickleKind::kList); break;                 // APPEND
      case 'e': add_items(pop_to_mark(), PickleKind::kList); break;           // APPENDS
      case 's': set_item(); break;                                            // SETITEM
      case 'u': add_items(pop_to_mark(), PickleKind::kDict); break;           // SETITEMS
      case 'q': put(byte()); break;                                           // BINPUT
      case 'r': put(number(4)); break;                                        // LONG_BINPUT
      case 0x94: put(memo_.size()); break;                                    // MEMOIZE
      case 'h': get(byte()); break;                                           // BINGET
      case 'j': get(number(4)); break;                                        // LONG_BINGET
      case 'c': global(); break;                                              // GLOBAL
      case 0x93: stack_global(); break;                                       // STACK_GLOBAL
      case 'Q': push({PickleKind::kPersistent, 0, 0.0, {}, {pop()}}); break;  // BINPERSID
      case 'R': reduce(); break;                                              // REDUCE
      case 'b': build(); break;                                               // BUILD
      default: refuse(code);
    }
  }

  [[noreturn]] void refuse(unsigned char code) const {
    const char* name = opcode_name(code);
    const std::string shown = name != nullptr ? std::string(name) : cat("number ", int{code});
    fail_here(cat("instruction ", shown, ", which is not needed for tensors,"));
  }

  void protocol(unsigned char version) {
    if (version < 2 || version > 5) fail_here(cat("protocol ", int{version}, ", expected 2 to 5,"));
  }
  void frame(std::uint64_t size) const {
    if (size > bytes_.size() - at_) fail_here("a frame that goes beyond its end");
  }
  void stop() {
    if (!marks_.empty() || stack_.size() != 1)
      fail_here(cat("its end, with ", stack_.size(), " values and ", marks_.size(),
                    " marks left (expected one value),"));
    stopped_ = true;
  }
  void long_integer(std::size_t count) {
    if (count > 8) fail_here("an integer of more than 64 bits");
    if (count == 0) return push_int(0);
    const std::uint64_t raw = number(count);
    const auto unused = static_cast<unsigned>(64 - 8 * count);
    push_int(static_cast<std::int64_t>(raw << unused) >> unused);
  }
  void binary_float() {
    std::uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
    push({PickleKind::kFloat, 0, std::bit_cast<double>(bits), {}, {}});
  }
  void set_item() {
    const std::uint32_t value = pop();
    const std::uint32_t key = pop();
    add_items({key, value}, PickleKind::kDict);
  }
  void global() {
    const std::string_view module = line();
    const std::string_view name = line();
    push_global(cat(module, " ", name));
  }
  void stack_global() {
    const PickleValue& name = result_.values[pop()];
    const PickleValue& module = result_.values[pop()];
    if (name.kind != PickleKind::kText || module.kind != PickleKind::kText)
      fail_here("STACK_GLOBAL of what is not text");
    push_global(cat(module.text, " ", name.text));
  }
  void reduce() {
    const std::uint32_t arguments = pop();
    const std::uint32_t function = pop();
    if (result_.values[function].kind != PickleKind::kGlobal ||
        result_.values[arguments].kind != PickleKind::kTuple)
      fail_here("REDUCE of what is not a function and a tuple");
    push({PickleKind::kCall, 0, 0.0, {}, {function, arguments}});
  }

  std::string_view bytes_;
  GlobalFilter allowed_;
  const std::string& what_;
  std::size_t at_ = 0;
  std::size_t start_ = 0;  // of the instruction
  bool stopped_ = false;
  std::size_t num_items_ = 0;
  Pickle result_;
  std::deque<std::string>& names_ = result_.names;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
};

}  // namespace

Pickle parse_pickle(std::string_view bytes, GlobalFilter allowed, const std::string& what) {
  if (bytes.size() > kMaxPickleBytes)
    throw InvalidArgument(
        cat(what, ": the pickle has ", bytes.size(), " bytes, expected at most ", kMaxPickleBytes));
  return Machine(bytes, allowed, what).run();
}

}  // namespace gpk::llm
