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
  return fs::path(testing::TempDir()) / ("safetensors_test_" + std::to_string(::getpid()) + name);
}

Safetensors example() {
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
  write_safetensors(path, example());
  const Safetensors back = read_safetensors(path);
  ASSERT_EQ(back.arrays.size(), 3u);
  EXPECT_EQ(back.arrays.at("weights").shape(), (Shape{2, 2}));
  EXPECT_THAT(back.arrays.at("weights").as<float>(), testing::ElementsAre(1.5f, -2.f, 0.f, 4.f));
  EXPECT_THAT(back.arrays.at("bytes").as<uint8_t>(), testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(back.arrays.at("zz_empty").shape(), (Shape{0, 3}));
  EXPECT_EQ(back.metadata.at("step"), "12");
  fs::remove(path);
}

TEST(Safetensors, DamagedFilesAreRefusedAndNeverCrash) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const fs::path path = scratch("damaged");
  write_safetensors(path, example());
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
      EXPECT_THAT(error.what(), testing::HasSubstr(path.string()));
      ++refused;
    }
  }
  EXPECT_GT(refused, 250) << sum;
  fs::remove(path);
}

}  // namespace
}  // namespace lacuna
