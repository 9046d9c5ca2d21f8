// WAV headers: right ones, and mutated ones, which give a typed error or samples inside the file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "base/error.h"
#include "speech/wav.h"

namespace gpk::speech {
namespace {

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string chunk(const std::string& id, const std::string& body) {
  return id + number(body.size(), 4) + body + std::string(body.size() % 2, '\0');
}

std::string riff(const std::string& chunks) {
  return "RIFF" + number(chunks.size() + 4, 4) + "WAVE" + chunks;
}

std::string format(int code, int channels, int rate, int bits) {
  const int align = channels * bits / 8;
  return number(static_cast<std::uint64_t>(code), 2) +
         number(static_cast<std::uint64_t>(channels), 2) +
         number(static_cast<std::uint64_t>(rate), 4) +
         number(static_cast<std::uint64_t>(rate) * static_cast<std::uint64_t>(align), 4) +
         number(static_cast<std::uint64_t>(align), 2) + number(static_cast<std::uint64_t>(bits), 2);
}

std::string extensible(int code, int channels, int rate, int bits) {
  return format(0xFFFE, channels, rate, bits) + number(22, 2) +
         number(static_cast<std::uint64_t>(bits), 2) + number(3, 4) +
         number(static_cast<std::uint64_t>(code), 2) +
         std::string("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71", 14);
}

// A copy without slack, so that ASan sees reads past its end.
WavHeader parse(const std::string& file) {
  const std::unique_ptr<std::byte[]> bytes(new std::byte[file.size()]);
  std::copy_n(reinterpret_cast<const std::byte*>(file.data()), file.size(), bytes.get());
  return parse_wav({bytes.get(), file.size()});
}

std::string message_of(const std::string& file) {
  try {
    parse(file);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Wav, Formats) {
  for (const int bits : {8, 16, 24, 32}) {
    const std::string body(static_cast<std::size_t>(bits / 8 * 2 * 5), 'x');
    const WavHeader header =
        parse(riff(chunk("fmt ", format(1, 2, 44100, bits)) + chunk("data", body)));
    EXPECT_EQ(header.encoding, WavEncoding::kPcm);
    EXPECT_EQ(header.channels, 2);
    EXPECT_EQ(header.sample_rate, 44100);
    EXPECT_EQ(header.bits, bits);
    EXPECT_EQ(header.offset, 44u);
    EXPECT_EQ(header.num_frames, 5);
  }
  const WavHeader header =
      parse(riff(chunk("LIST", "odd") + chunk("fmt ", extensible(3, 1, 8000, 64)) +
                 chunk("fact", "1234") + chunk("data", std::string(20, 'x'))));
  EXPECT_EQ(header.encoding, WavEncoding::kFloat);
  EXPECT_EQ(header.bits, 64);
  EXPECT_EQ(header.num_frames, 2);  // and half of one, which is left out
}

TEST(Wav, OpenEnd) {
  const std::string file = riff(chunk("fmt ", format(1, 1, 8000, 16))) + "data" +
                           number(0xFFFFFFFF, 4) + std::string(10, 'x');
  EXPECT_EQ(parse(file).num_frames, 5);
}

TEST(Wav, Refused) {
  const std::string good = chunk("fmt ", format(1, 1, 8000, 16));
  const std::string data = chunk("data", "abcd");
  EXPECT_EQ(message_of(""), "wav: the file has 0 bytes, expected at least 4");
  EXPECT_EQ(message_of("RIFX" + number(0, 4) + "WAVE"), "wav: the file does not begin with RIFF");
  EXPECT_EQ(message_of("RIFF" + number(4, 4) + "AVI "), "wav: the RIFF file is not of type WAVE");
  EXPECT_EQ(message_of(riff("")), "wav: the file has no fmt chunk");
  EXPECT_EQ(message_of(riff(good)), "wav: the file has no data chunk");
  EXPECT_EQ(message_of(riff(data + good)), "wav: the data chunk comes before the fmt chunk");
  EXPECT_EQ(message_of(riff(good + good + data)), "wav: the file has two fmt chunks");
  EXPECT_EQ(message_of(riff(good) + "data" + number(5, 4) + "abcd"),
            "wav: a chunk of 5 bytes begins at 44, the file has 48");
  EXPECT_EQ(message_of(riff(chunk("fmt ", "short") + data)),
            "wav: the fmt chunk has 5 bytes, expected at least 16");
  EXPECT_NE(message_of(riff(chunk("fmt ", format(2, 1, 8000, 16)) + data)).find("the format is 2"),
            std::string::npos);
  EXPECT_NE(message_of(riff(chunk("fmt ", format(1, 0, 8000, 16)) + data)).find("channels is 0"),
            std::string::npos);
  EXPECT_NE(message_of(riff(chunk("fmt ", format(1, 1, 0, 16)) + data)).find("sample rate is 0"),
            std::string::npos);
  EXPECT_NE(message_of(riff(chunk("fmt ", format(1, 1, 8000, 12)) + data)).find("12 bits"),
            std::string::npos);
  EXPECT_NE(message_of(riff(chunk("fmt ", format(3, 1, 8000, 16)) + data)).find("32 or 64"),
            std::string::npos);
  std::string lying = format(1, 2, 8000, 16);
  lying[12] = 3;
  EXPECT_NE(message_of(riff(chunk("fmt ", lying) + data)).find("the block size is 3 bytes"),
            std::string::npos);
  std::string other = extensible(1, 1, 8000, 16);
  other[30] = 7;
  EXPECT_NE(message_of(riff(chunk("fmt ", other) + data)).find("sub-format"), std::string::npos);
}

TEST(Wav, MutatedFiles) {
  const std::string corpus[] = {
      riff(chunk("fmt ", format(1, 2, 44100, 16)) + chunk("data", std::string(64, 'x'))),
      riff(chunk("LIST", "info") + chunk("fmt ", extensible(3, 1, 8000, 32)) +
           chunk("fact", "1234") + chunk("data", std::string(33, 'x'))),
  };
  const char* const given = std::getenv("GPK_FUZZ_COUNT");
  const int count = given != nullptr ? std::atoi(given) : 10000;
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    std::string file = corpus[random() % 2];
    for (std::uint64_t change = 1 + random() % 4; change > 0 && !file.empty(); --change) {
      const std::size_t at = random() % file.size();
      switch (random() % 4) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file.resize(at); break;
        case 2: file.insert(at, number(random(), 4)); break;
        default: {
          constexpr std::uint64_t kSizes[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF7, 0xFFFFFFFF};
          file.replace(at, 4, number(kSizes[random() % 6], 4));
        }
      }
    }
    try {
      const WavHeader header = parse(file);
      ++accepted;
      const auto frame =
          static_cast<std::size_t>(header.channels) * static_cast<std::size_t>(header.bits) / 8;
      ASSERT_LE(header.offset, file.size());
      ASSERT_LE(static_cast<std::size_t>(header.num_frames) * frame, file.size() - header.offset);
      ASSERT_GE(header.channels, 1);
      ASSERT_GE(header.sample_rate, 1);
    } catch (const InvalidArgument& error) {
      ASSERT_EQ(std::string(error.what()).rfind("wav: ", 0), 0u);
    }
  }
  EXPECT_GT(accepted, count / 100);
  EXPECT_LT(accepted, count);
}

}  // namespace
}  // namespace gpk::speech
