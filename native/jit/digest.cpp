#include "jit/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpk::jit {
namespace {

constexpr std::array<std::uint32_t, 64> kRound{
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u,
    0xab1c5ed5u, 0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu,
    0x9bdc06a7u, 0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu,
    0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u,
    0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu,
    0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u, 0xa2bfe8a1u, 0xa81a664bu,
    0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u,
    0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u,
    0xc67178f2u};

}  // namespace

void Sha256::block(const std::uint8_t* bytes) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{bytes[4 * i]} << 24 | std::uint32_t{bytes[4 * i + 1]} << 16 |
           std::uint32_t{bytes[4 * i + 2]} << 8 | std::uint32_t{bytes[4 * i + 3]};
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> add{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

Sha256& Sha256::update(std::string_view bytes) {
  num_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (num_pending_ == 0 && bytes.size() >= 64) {
      block(reinterpret_cast<const std::uint8_t*>(bytes.data()));
      bytes.remove_prefix(64);
      continue;
    }
    const std::size_t take = std::min(bytes.size(), 64 - num_pending_);
    std::memcpy(pending_.data() + num_pending_, bytes.data(), take);
    num_pending_ += take;
    bytes.remove_prefix(take);
    if (num_pending_ == 64) {
      block(pending_.data());
      num_pending_ = 0;
    }
  }
  return *this;
}

Sha256Bytes Sha256::finish() {
  const std::uint64_t num_bits = num_bytes_ * 8;
  std::string tail(1, '\x80');
  while ((num_pending_ + tail.size()) % 64 != 56) tail.push_back('\0');
  for (int i = 7; i >= 0; --i) tail.push_back(static_cast<char>(num_bits >> (8 * i)));
  update(tail);
  Sha256Bytes out;
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return out;
}

Sha256Bytes sha256(std::string_view bytes) { return Sha256().update(bytes).finish(); }

std::string sha256_hex(std::string_view bytes) { return to_hex(sha256(bytes)); }

std::string to_hex(const Sha256Bytes& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

void FieldDigest::prefixed(std::string_view bytes) {
  std::string length;
  for (int i = 0; i < 8; ++i) {
    length.push_back(static_cast<char>(std::uint64_t{bytes.size()} >> (8 * i)));
  }
  hash_.update(length).update(bytes);
}

FieldDigest& FieldDigest::field(std::string_view label, std::string_view value) {
  prefixed(label);
  prefixed(value);
  return *this;
}

}  // namespace gpk::jit
