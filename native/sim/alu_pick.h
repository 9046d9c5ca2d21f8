// Which loop an operation on a type is. A part of alu_kernels.h.

// --- picking ------------------------------------------------------------------------------------
template <class T>
Handler integer_handler(Alu op) {
  switch (op) {
    case Alu::kMove: return map1<Move, T, T>;
    case Alu::kNot: return map1<Not, T, T>;
    case Alu::kCnot: return map1<Cnot, T, T>;
    case Alu::kNeg: return map1<Neg, T, T>;
    case Alu::kAbs:
      if constexpr (std::is_signed_v<T>) return map1<Abs, T, T>;
      return map1<Move, T, T>;
    case Alu::kAdd: return map2<Add, T, T>;
    case Alu::kSub: return map2<Sub, T, T>;
    case Alu::kMul: return map2<Mul, T, T>;
    case Alu::kMulHi: return map2<MulHi, T, T>;
    case Alu::kMulWide:
      if constexpr (sizeof(T) < 8) return map2<MulWide, typename WiderOf<T>::type, T>;
      return nullptr;
    case Alu::kDiv: return map2<Div, T, T>;
    case Alu::kRem: return map2<Rem, T, T>;
    case Alu::kMin: return map2<Min, T, T>;
    case Alu::kMax: return map2<Max, T, T>;
    case Alu::kAnd: return map2<And, T, T>;
    case Alu::kOr: return map2<Or, T, T>;
    case Alu::kXor: return map2<Xor, T, T>;
    case Alu::kShl: return map2<Shl, T, T, uint32_t>;
    case Alu::kShr: return map2<Shr, T, T, uint32_t>;
    case Alu::kMad: return map3<Mad, T, T>;
    case Alu::kMadHi: return map3<MadHi, T, T>;
    case Alu::kMadWide:
      if constexpr (sizeof(T) < 8)
        return map3<MadWide, typename WiderOf<T>::type, T, T, typename WiderOf<T>::type>;
      return nullptr;
    case Alu::kSad: return map3<Sad, T, T>;
    default: break;
  }
  if constexpr (sizeof(T) >= 4) {
    switch (op) {
      case Alu::kClz: return map1<Clz, uint32_t, T>;
      case Alu::kPopc: return map1<Popc, uint32_t, T>;
      case Alu::kBrev: return map1<Brev, T, T>;
      case Alu::kBfind: return map1<Bfind<false>, uint32_t, T>;
      case Alu::kBfindShift: return map1<Bfind<true>, uint32_t, T>;
      case Alu::kBfe: return map3<Bfe, T, T, uint32_t, uint32_t>;
      case Alu::kBfi: return bfi<Unsigned<T>>;
      case Alu::kAddCarry: return carry<Unsigned<T>, Alu::kAddCarry>;
      case Alu::kSubCarry: return carry<Unsigned<T>, Alu::kSubCarry>;
      case Alu::kMadLoCarry: return carry<Unsigned<T>, Alu::kMadLoCarry>;
      // The high half of a signed product differs.
      case Alu::kMadHiCarry:
        if constexpr (!std::is_signed_v<T>) return carry<T, Alu::kMadHiCarry>;
        return nullptr;
      default: break;
    }
  }
  if constexpr (sizeof(T) == 4) {
    switch (op) {
      case Alu::kPrmt: return prmt;
      case Alu::kLop3: return lop3;
      case Alu::kShfL: return map3<Shf<true, false>, uint32_t, uint32_t>;
      case Alu::kShfR: return map3<Shf<false, false>, uint32_t, uint32_t>;
      case Alu::kShfLClamp: return map3<Shf<true, true>, uint32_t, uint32_t>;
      case Alu::kShfRClamp: return map3<Shf<false, true>, uint32_t, uint32_t>;
      case Alu::kDp4a:
      case Alu::kDp2aLo:
      case Alu::kDp2aHi: return dot;
      case Alu::kMul24: return map2<Mul24, T, T>;
      default: break;
    }
  }
  if constexpr (std::is_same_v<T, int32_t>) {
    if (op == Alu::kAddSat) return map2<AddSat, T, T>;
    if (op == Alu::kSubSat) return map2<SubSat, T, T>;
    if (op == Alu::kMadHiSat) return map3<MadHiSat, T, T>;
  }
  return nullptr;
}

template <Handler kInner>
Handler with_rounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven: return kInner;
    case Rounding::kZero: return rounded<kInner, FE_TOWARDZERO>;
    case Rounding::kDown: return rounded<kInner, FE_DOWNWARD>;
    case Rounding::kUp: return rounded<kInner, FE_UPWARD>;
    default: return nullptr;
  }
}

template <class T, unsigned kFlags>
Handler float_handler(Alu op, Rounding rounding) {
  switch (op) {
    case Alu::kMove: return map1<Move, T, T>;
    case Alu::kNeg: return map1<FNeg<kFlags>, T, T>;
    case Alu::kAbs: return map1<FAbs<kFlags>, T, T>;
    case Alu::kAdd: return with_rounding<map2<Float<FAdd, kFlags>, T, T>>(rounding);
    case Alu::kSub: return with_rounding<map2<Float<FSub, kFlags>, T, T>>(rounding);
    case Alu::kMul: return with_rounding<map2<Float<FMul, kFlags>, T, T>>(rounding);
    case Alu::kFma: return with_rounding<map3<Float<FFma, kFlags>, T, T>>(rounding);
    case Alu::kDiv: return with_rounding<map2<Float<FDiv, kFlags>, T, T>>(rounding);
    case Alu::kRcp: return with_rounding<map1<Float<FRcp, kFlags>, T, T>>(rounding);
    case Alu::kSqrt: return with_rounding<map1<Float<FSqrt, kFlags>, T, T>>(rounding);
    case Alu::kRsqrt: return map1<Float<FRsqrt, kFlags>, T, T>;
    case Alu::kMin: return map2<Float<FMin, kFlags>, T, T>;
    case Alu::kMax: return map2<Float<FMax, kFlags>, T, T>;
    case Alu::kCopysign: return map2<Copysign, T, T>;
    default: break;
  }
  if constexpr (std::is_same_v<T, float>) {
    switch (op) {
      case Alu::kMinNan: return map2<Float<FMinNan, kFlags>, T, T>;
      case Alu::kMaxNan: return map2<Float<FMaxNan, kFlags>, T, T>;
      case Alu::kMinXorsign: return map2<Float<Xorsign<FMin>, kFlags>, T, T>;
      case Alu::kMaxXorsign: return map2<Float<Xorsign<FMax>, kFlags>, T, T>;
      case Alu::kSin: return map1<Float<FSin, kFlags>, T, T>;
      case Alu::kCos: return map1<Float<FCos, kFlags>, T, T>;
      case Alu::kLg2: return map1<Float<FLg2, kFlags>, T, T>;
      case Alu::kEx2: return map1<Float<FEx2, kFlags>, T, T>;
      case Alu::kTanh: return map1<Float<FTanh, kFlags>, T, T>;
      case Alu::kMin3: return map3<Float<FMin3, kFlags>, T, T>;
      case Alu::kMax3: return map3<Float<FMax3, kFlags>, T, T>;
      default: break;
    }
  }
  return nullptr;
}

template <class N, unsigned kFlags, bool kPair>
Handler narrow_handler(Alu op) {
  using D = std::conditional_t<kPair, uint32_t, uint16_t>;
#define GPK_NARROW(functor, map)       \
  if constexpr (kPair)                 \
    return map<Packed<functor>, D, D>; \
  else                                 \
    return map<functor, D, D>
#define GPK_NARROW_OP(f) Narrow<N, f, kFlags>
  using AddOp = GPK_NARROW_OP(FAdd);
  using SubOp = GPK_NARROW_OP(FSub);
  using MulOp = GPK_NARROW_OP(FMul);
  using FmaOp = GPK_NARROW_OP(FFma);
  using MinOp = GPK_NARROW_OP(FMin);
  using MaxOp = GPK_NARROW_OP(FMax);
  using MinNanOp = GPK_NARROW_OP(FMinNan);
  using MaxNanOp = GPK_NARROW_OP(FMaxNan);
  using Ex2Op = GPK_NARROW_OP(FEx2);
  using TanhOp = GPK_NARROW_OP(FTanh);
  using FmaReluOp = NarrowRelu<N, FFma, kFlags>;
  switch (op) {
    case Alu::kMove: return map1<Move, D, D>;
    case Alu::kNeg: GPK_NARROW(NarrowNeg, map1);
    case Alu::kAbs: GPK_NARROW(NarrowAbs, map1);
    case Alu::kAdd: GPK_NARROW(AddOp, map2);
    case Alu::kSub: GPK_NARROW(SubOp, map2);
    case Alu::kMul: GPK_NARROW(MulOp, map2);
    case Alu::kFma: GPK_NARROW(FmaOp, map3);
    case Alu::kFmaRelu: GPK_NARROW(FmaReluOp, map3);
    case Alu::kMin: GPK_NARROW(MinOp, map2);
    case Alu::kMax: GPK_NARROW(MaxOp, map2);
    case Alu::kMinNan: GPK_NARROW(MinNanOp, map2);
    case Alu::kMaxNan: GPK_NARROW(MaxNanOp, map2);
    case Alu::kEx2: GPK_NARROW(Ex2Op, map1);
    case Alu::kTanh: GPK_NARROW(TanhOp, map1);
    default: return nullptr;
  }
#undef GPK_NARROW
#undef GPK_NARROW_OP
}

template <unsigned kFlags>
Handler flagged_handler(Alu op, Type type, Rounding rounding) {
  switch (type) {
    case Type::kF32: return float_handler<float, kFlags>(op, rounding);
    case Type::kF16: return narrow_handler<HalfTraits, kFlags, false>(op);
    case Type::kF16x2: return narrow_handler<HalfTraits, kFlags, true>(op);
    case Type::kBf16: return narrow_handler<Bf16Traits, kFlags & kSat, false>(op);
    case Type::kBf16x2: return narrow_handler<Bf16Traits, kFlags & kSat, true>(op);
    default: return nullptr;
  }
}

Handler alu_handler(Alu op, Type type, unsigned flags, Rounding rounding) {
  if (op == Alu::kSlct) {  // type: of c
    return nullptr;
  }
  switch (type) {
    case Type::kB16:
    case Type::kU16: return integer_handler<uint16_t>(op);
    case Type::kS16: return integer_handler<int16_t>(op);
    case Type::kB32:
    case Type::kU32: return integer_handler<uint32_t>(op);
    case Type::kS32: return integer_handler<int32_t>(op);
    case Type::kB64:
    case Type::kU64: return integer_handler<uint64_t>(op);
    case Type::kS64: return integer_handler<int64_t>(op);
    case Type::kF64:
      if (op == Alu::kRcpCoarse) return map1<RcpCoarse, double, double>;
      if (op == Alu::kRsqrtCoarse) return map1<RsqrtCoarse, double, double>;
      return float_handler<double, 0>(op, rounding);
    default: break;
  }
  switch (flags) {
    case 0: return flagged_handler<0>(op, type, rounding);
    case kFtz: return flagged_handler<kFtz>(op, type, rounding);
    case kSat: return flagged_handler<kSat>(op, type, rounding);
    default: return flagged_handler<kFtz | kSat>(op, type, rounding);
  }
}
