#include "sim/specials.h"

#include <array>
#include <utility>

namespace gpk::sim {
namespace {

struct Named {
  std::string_view name;
  SpecialRegister id;
  unsigned bytes = 4;
};

constexpr Named kNamed[] = {
    {"%tid.x", kTidX},
    {"%tid.y", kTidY},
    {"%tid.z", kTidZ},
    {"%ntid.x", kNtidX},
    {"%ntid.y", kNtidY},
    {"%ntid.z", kNtidZ},
    {"%ctaid.x", kCtaidX},
    {"%ctaid.y", kCtaidY},
    {"%ctaid.z", kCtaidZ},
    {"%nctaid.x", kNctaidX},
    {"%nctaid.y", kNctaidY},
    {"%nctaid.z", kNctaidZ},
    {"%laneid", kLaneid},
    {"%warpid", kWarpid},
    {"%nwarpid", kNwarpid},
    {"%smid", kSmid},
    {"%nsmid", kNsmid},
    {"%gridid", kGridid, 8},
    {"%lanemask_eq", kLanemaskEq},
    {"%lanemask_lt", kLanemaskLt},
    {"%lanemask_le", kLanemaskLe},
    {"%lanemask_gt", kLanemaskGt},
    {"%lanemask_ge", kLanemaskGe},
    {"%clusterid.x", kClusteridX},
    {"%clusterid.y", kClusteridY},
    {"%clusterid.z", kClusteridZ},
    {"%nclusterid.x", kNclusteridX},
    {"%nclusterid.y", kNclusteridY},
    {"%nclusterid.z", kNclusteridZ},
    {"%cluster_ctaid.x", kClusterCtaidX},
    {"%cluster_ctaid.y", kClusterCtaidY},
    {"%cluster_ctaid.z", kClusterCtaidZ},
    {"%cluster_nctaid.x", kClusterNctaidX},
    {"%cluster_nctaid.y", kClusterNctaidY},
    {"%cluster_nctaid.z", kClusterNctaidZ},
    {"%cluster_ctarank", kClusterCtarank},
    {"%cluster_nctarank", kClusterNctarank},
    {"%is_explicit_cluster", kIsExplicitCluster, 1},
    {"%dynamic_smem_size", kDynamicSmemSize},
    {"%total_smem_size", kTotalSmemSize},
    {"%aggr_smem_size", kAggrSmemSize},
    {"%clock", kClock},
    {"%clock64", kClock64, 8},
    {"%clock_hi", kClockHi},
    {"%globaltimer", kGlobaltimer, 8},
    {"%globaltimer_lo", kGlobaltimerLo},
    {"%globaltimer_hi", kGlobaltimerHi},
};

unsigned pick(const Dim3& dims, unsigned axis) {
  return axis == 0 ? dims.x : axis == 1 ? dims.y : dims.z;
}

std::uint64_t value_of(const Warp& warp, unsigned id, unsigned lane) {
  const Block& block = *warp.block;
  const Grid& grid = *warp.grid;
  const LaunchShape& shape = grid.shape;
  const std::uint32_t bit = 1u << lane;
  if (id >= kTidX && id <= kTidZ)
    return pick(thread_at(grid, warp.index * kLanes + lane), id - kTidX);
  if (id >= kNtidX && id <= kNtidZ) return pick(shape.block, id - kNtidX);
  if (id >= kCtaidX && id <= kCtaidZ) return pick(block.index, id - kCtaidX);
  if (id >= kNctaidX && id <= kNctaidZ) return pick(shape.grid, id - kNctaidX);
  if (id >= kClusteridX && id <= kClusteridZ)
    return pick(block.index, id - kClusteridX) / pick(shape.cluster, id - kClusteridX);
  if (id >= kNclusteridX && id <= kNclusteridZ)
    return pick(shape.grid, id - kNclusteridX) / pick(shape.cluster, id - kNclusteridX);
  if (id >= kClusterCtaidX && id <= kClusterCtaidZ)
    return pick(block.cluster_index, id - kClusterCtaidX);
  if (id >= kClusterNctaidX && id <= kClusterNctaidZ)
    return pick(shape.cluster, id - kClusterNctaidX);
  switch (id) {
    case kLaneid: return lane;
    case kWarpid: return warp.index;
    case kNwarpid: return grid.warps_per_block;
    case kNsmid: return 132;
    case kSmid: return (block.index.x + block.index.y * shape.grid.x) % 132;
    case kLanemaskEq: return bit;
    case kLanemaskLt: return bit - 1;
    case kLanemaskLe: return (bit - 1) | bit;
    case kLanemaskGt: return ~((bit - 1) | bit);
    case kLanemaskGe: return ~(bit - 1);
    case kClusterCtarank: return block.rank;
    case kClusterNctarank: return shape.cluster.x * shape.cluster.y * shape.cluster.z;
    case kIsExplicitCluster: return shape.cluster == Dim3{} ? 0 : 1;
    case kDynamicSmemSize: return shape.dynamic_shared_bytes;
    case kTotalSmemSize:
    case kAggrSmemSize: return grid.shared_bytes - kSharedReserved;
    default: return 0;
  }
}

}  // namespace

SpecialInfo special_named(std::string_view name) {
  for (const Named& one : kNamed)
    if (one.name == name) return {one.id, one.bytes};
  if (name.starts_with("%envreg") || name.starts_with("%pm")) return {kZero, 4};
  return {kZero, 0};
}

Dim3 thread_at(const Grid& grid, unsigned linear) {
  const Dim3& block = grid.shape.block;
  return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

void fill_specials(const Warp& warp, Frame& frame) {
  for (const Special& special : frame.function->specials) {
    if (special.bytes == 0) {  // a predicate
      const std::uint32_t bits = value_of(warp, special.id, 0) != 0 ? kFull : 0;
      std::memcpy(frame.registers.data + special.cell, &bits, 4);
      continue;
    }
    const bool by_lane = special.id <= kTidZ || special.id == kLaneid ||
                         (special.id >= kLanemaskEq && special.id <= kLanemaskGe);
    std::uint64_t value = value_of(warp, special.id, 0);
    if (special.bytes == 4 && special.id == kTidX &&
        warp.grid->shape.block.x >= warp.grid->threads_per_block) {
      auto* words = reinterpret_cast<std::uint32_t*>(frame.registers.data + special.cell);
      for (unsigned lane = 0; lane < kLanes; ++lane) words[lane] = warp.index * kLanes + lane;
      continue;
    }
    if (special.bytes == 4 && !by_lane) {
      auto* words = reinterpret_cast<std::uint32_t*>(frame.registers.data + special.cell);
      for (unsigned lane = 0; lane < kLanes; ++lane)
        words[lane] = static_cast<std::uint32_t>(value);
      continue;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if (by_lane) value = value_of(warp, special.id, lane);
      std::memcpy(frame.registers.data + special.cell + std::size_t{special.bytes} * lane, &value,
                  special.bytes);
    }
  }
}

}  // namespace gpk::sim
