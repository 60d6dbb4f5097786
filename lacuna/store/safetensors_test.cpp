#include "lacuna/store/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

fs::path scratch(const std::string& name) {
  return fs::path(::testing::TempDir()) / ("safetensors_test_" + std::to_string(::getpid()) + name);
}

Safetensors example_tensors() {
  Safetensors contents;
  contents.arrays["bytes"] = Array::from(std::vector<uint8_t>{1, 2, 3});
  contents.arrays["weights"] = Array::from(std::vector<float>{1.5f, -2.f, 0.f, 4.f}, {2, 2});
  contents.arrays["zz_empty"] = Array::from(std::vector<double>{}, {0, 3});
  contents.metadata["step"] = "12";
  return contents;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const fs::path path = scratch("round");
  write_safetensors(path, example_tensors());
  const Safetensors back = read_safetensors(path);
  ASSERT_EQ(back.arrays.size(), 3u);
  EXPECT_EQ(back.arrays.at("weights").shape(), (Shape{2, 2}));
  EXPECT_THAT(back.arrays.at("weights").as<float>(), ::testing::ElementsAre(1.5f, -2.f, 0.f, 4.f));
  EXPECT_THAT(back.arrays.at("bytes").as<uint8_t>(), ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(back.arrays.at("zz_empty").shape(), (Shape{0, 3}));
  EXPECT_EQ(back.metadata.at("step"), "12");
  fs::remove(path);
}

TEST(Safetensors, DamagedFilesAreRefusedAndNeverCrash) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const fs::path path = scratch("damaged");
  write_safetensors(path, example_tensors());
  const std::string whole = bytes_of(path);
  int refused = 0;
  uint64_t sum = 0;  // every byte that an array claims is read
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole;
    if (i % 2 == 0) bytes.resize(random.below(bytes.size()));
    for (int k = 0; k < 3 && !bytes.empty(); ++k)
      bytes[random.below(std::min<size_t>(bytes.size(), 300))] = char(random.next());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    try {
      for (const auto& [name, array] : read_safetensors(path).arrays) sum += hash64(array.bytes());
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(path.string()));
      ++refused;
    }
  }
  EXPECT_GT(refused, 250) << sum;
  fs::remove(path);
}

std::string file_of(std::string header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const TemporaryDirectory folder;
  const auto said = [&](const std::string& header, size_t data_bytes = 8) {
    write_file(folder / "f", file_of(header, std::string(data_bytes, 'x')));
    return error_of([&] { read_safetensors(folder / "f"); });
  };
  const auto array = [](const std::string& shape, const std::string& place) {
    return fmt::format(R"({{"dtype":"F32","shape":{},"data_offsets":{}}})", shape, place);
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(said(std::string(100'000, '[')), HasSubstr("nested deeper than"));
  EXPECT_THAT(said("null", 0), HasSubstr("not what safetensors asks for"));
  EXPECT_THAT(said("[]", 0), HasSubstr("not what safetensors asks for"));
  EXPECT_THAT(said("{}"), HasSubstr("8 bytes behind its arrays"));
  EXPECT_THAT(said("{\"a\":" + array("[-1]", "[0,8]") + "}"), HasSubstr("malformed shape"));
  EXPECT_THAT(said("{\"a\":" + array("[2.5]", "[0,8]") + "}"), HasSubstr("malformed shape"));
  EXPECT_THAT(said("{\"a\":" + array("[2]", "[0,8,9]") + "}"), HasSubstr("no place"));
  EXPECT_THAT(said("{\"a\":" + array("[9223372036854775808,4]", "[0,8]") + "}"),
              HasSubstr("impossible shape"));
  // Two in one place; a gap; bytes behind the last.
  const std::string first = "\"a\":" + array("[2]", "[0,8]");
  EXPECT_THAT(said("{" + first + ",\"b\":" + array("[2]", "[0,8]") + "}"),
              HasSubstr("do not lie side by side"));
  EXPECT_THAT(said("{" + first + ",\"b\":" + array("[1]", "[12,16]") + "}", 16),
              HasSubstr("do not lie side by side (byte 8"));
  EXPECT_THAT(said("{" + first + "}", 9), HasSubstr("1 bytes behind its arrays"));
  write_file(folder / "f", file_of("{" + first + "}", "abcdefgh"));
  EXPECT_EQ(read_safetensors(folder / "f").arrays.at("a").shape(), Shape{2});
}

}  // namespace
}  // namespace lacuna
