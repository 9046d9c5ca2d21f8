#include "sim/liveness.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace gpk::sim {
namespace {

constexpr std::size_t kMaxBits = std::size_t{1} << 28;  // of one set for all blocks

struct Block {
  std::size_t begin, end;
  std::vector<std::size_t> next;
};

bool branches(const ast::Instruction& inst) {
  return inst.opcode.starts_with("bra") || inst.opcode.starts_with("brx") ||
         inst.opcode.starts_with("ret") || inst.opcode.starts_with("exit");
}

// Whether the first operand is written and nothing else: every lane that runs the instruction has
// a new value then. Where that is not known, the register counts as read, which only lengthens
// its range.
bool overwrites(const ast::Instruction& inst) {
  if (inst.guard >= 0) return false;
  static constexpr std::string_view kOthers[] = {
      "st",        "stmatrix", "red",           "wgmma",  "call",      "bar",        "barrier",
      "bra",       "brx",      "mbarrier",      "cp",     "nanosleep", "setmaxnreg", "prefetch",
      "prefetchu", "discard",  "applypriority", "membar", "fence",     "tensormap",  "multimem",
      "pmevent"};
  const std::string_view root = inst.opcode.substr(0, inst.opcode.find('.'));
  return std::find(std::begin(kOthers), std::end(kOthers), root) == std::end(kOthers);
}

template <class Visit>  // visit(register, whether it is overwritten)
void for_registers(const ast::Operand& operand, bool defines, const Visit& visit) {
  if (operand.kind == ast::Operand::Kind::kAddress) defines = false;
  if (operand.reg >= 0) visit(static_cast<std::size_t>(operand.reg), defines);
  for (const ast::Operand& element : operand.elements) for_registers(element, defines, visit);
}

// Reads first: an instruction that reads what it writes needs the old value.
template <class Visit>
void for_registers(const ast::Instruction& inst, const Visit& visit) {
  const bool defines = overwrites(inst);
  if (inst.guard >= 0) visit(static_cast<std::size_t>(inst.guard), false);
  for (std::size_t k = 1; k < inst.operands.size(); ++k)
    for_registers(inst.operands[k], false, visit);
  if (inst.operands.empty()) return;
  const auto pass = [&](bool writes) {
    for_registers(inst.operands[0], defines, [&](std::size_t reg, bool written) {
      if (written == writes) visit(reg, written);
    });
  };
  pass(false);
  pass(true);
}

std::vector<Block> blocks_of(const ast::Function& function, const LabelAt& label_at) {
  const std::size_t size = function.body.size();
  std::vector<bool> starts(size + 1, false);
  starts[0] = true;
  for (const ast::Label& one : function.labels) starts[one.at] = true;
  for (std::size_t i = 0; i < size; ++i)
    if (branches(function.body[i])) starts[i + 1] = true;
  std::vector<Block> blocks;
  std::vector<std::size_t> block_at(size + 1, 0);
  for (std::size_t i = 0; i < size; ++i) {
    if (starts[i]) blocks.push_back({i, i, {}});
    blocks.back().end = i + 1;
    block_at[i] = blocks.size() - 1;
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    Block& block = blocks[b];
    const ast::Instruction& last = function.body[block.end - 1];
    const auto go = [&](std::size_t target) {
      if (target < size) block.next.push_back(block_at[target]);
    };
    if (last.opcode.starts_with("bra") && !last.operands.empty())
      go(label_at(last.operands[0].name, last.scope));
    if (last.opcode.starts_with("brx") && last.operands.size() > 1)
      for (const ast::LabelList& list : function.label_lists)
        if (list.name == last.operands[1].name)
          for (const std::string_view target : list.targets) go(label_at(target, list.scope));
    if (!branches(last) || last.guard >= 0) go(block.end);
  }
  return blocks;
}

// Sets of registers, one per block.
class Sets {
 public:
  Sets(std::size_t blocks, std::size_t registers)
      : words_((registers + 63) / 64), bits_(words_ * blocks) {}
  void set(std::size_t block, std::size_t reg) {
    bits_[block * words_ + reg / 64] |= std::uint64_t{1} << (reg % 64);
  }
  bool has(std::size_t block, std::size_t reg) const {
    return (bits_[block * words_ + reg / 64] >> (reg % 64) & 1) != 0;
  }
  std::uint64_t* at(std::size_t block) { return bits_.data() + block * words_; }
  std::size_t words() const { return words_; }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

class Liveness {
 public:
  Liveness(const ast::Function& function, const LabelAt& label_at)
      : function_(function),
        blocks_(blocks_of(function, label_at)),
        ranges_(function.registers.size()),
        number_(function.registers.size(), kLocal) {}

  std::vector<LiveRange> run() {
    find_crossing();
    if (!crossing_.empty()) {
      if (crossing_.size() * blocks_.size() > kMaxBits)
        for (const std::size_t reg : crossing_) ranges_[reg] = {0, function_.body.size() - 1};
      else
        flow();
    }
    return std::move(ranges_);
  }

 private:
  static constexpr std::size_t kLocal = SIZE_MAX;

  void mention(std::size_t reg, std::size_t at) {
    LiveRange& range = ranges_[reg];
    range.first = std::min(range.first, at);
    range.last = std::max(range.last, at);
  }

  // Most registers live within one block, written there first. The others are numbered.
  void find_crossing() {
    std::vector<std::size_t> home(ranges_.size(), kLocal);
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      for (std::size_t i = blocks_[b].begin; i < blocks_[b].end; ++i)
        for_registers(function_.body[i], [&](std::size_t reg, bool written) {
          mention(reg, i);
          const bool crosses = home[reg] == kLocal ? !written : home[reg] != b;
          if (home[reg] == kLocal) home[reg] = b;
          if (!crosses || number_[reg] != kLocal) return;
          number_[reg] = crossing_.size();
          crossing_.push_back(reg);
        });
  }

  void flow() {
    const std::size_t count = blocks_.size();
    Sets reads(count, crossing_.size()), writes(count, crossing_.size());
    for (std::size_t b = 0; b < count; ++b)
      for (std::size_t i = blocks_[b].begin; i < blocks_[b].end; ++i)
        for_registers(function_.body[i], [&](std::size_t reg, bool written) {
          const std::size_t n = number_[reg];
          if (n == kLocal) return;
          if (written)
            writes.set(b, n);
          else if (!writes.has(b, n))
            reads.set(b, n);
        });
    Sets in = reads, out(count, crossing_.size());
    const std::size_t words = in.words();
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = count; b-- > 0;) {
        std::uint64_t* const after = out.at(b);
        for (const std::size_t next : blocks_[b].next) {
          const std::uint64_t* const before = in.at(next);
          for (std::size_t w = 0; w < words; ++w) after[w] |= before[w];
        }
        std::uint64_t* const before = in.at(b);
        const std::uint64_t* const written = writes.at(b);
        for (std::size_t w = 0; w < words; ++w) {
          const std::uint64_t now = before[w] | (after[w] & ~written[w]);
          changed = changed || now != before[w];
          before[w] = now;
        }
      }
    }
    for (std::size_t b = 0; b < count; ++b) {
      extend(in.at(b), words, blocks_[b].begin);
      extend(out.at(b), words, blocks_[b].end - 1);
    }
  }

  void extend(const std::uint64_t* set, std::size_t words, std::size_t at) {
    for (std::size_t w = 0; w < words; ++w)
      for (std::uint64_t rest = set[w]; rest != 0; rest &= rest - 1)
        mention(crossing_[w * 64 + static_cast<std::size_t>(std::countr_zero(rest))], at);
  }

  const ast::Function& function_;
  std::vector<Block> blocks_;
  std::vector<LiveRange> ranges_;
  std::vector<std::size_t> number_;    // among the crossing ones
  std::vector<std::size_t> crossing_;  // registers that may live in several blocks
};

}  // namespace

std::vector<LiveRange> live_ranges(const ast::Function& function, const LabelAt& label_at) {
  return Liveness(function, label_at).run();
}

}  // namespace gpk::sim
