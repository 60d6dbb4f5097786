#include "lacuna/store/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// A version 1 file with this header text and so many bytes of data.
std::string npy(std::string text, size_t data_bytes, int version = 1) {
  const size_t start = version == 1 ? 10 : 12;
  while ((start + text.size()) % 16 != 0) text += ' ';
  std::string file = "\x93NUMPY";
  file += {char(version), '\0', char(text.size() & 0xff), char(text.size() >> 8)};
  if (version != 1) file += std::string(2, '\0');
  return file + text + std::string(data_bytes, '\x01');
}

class NpyTest : public ::testing::Test {
 protected:
  Array read(const std::string& bytes) {
    write_file(file_, bytes);
    return read_npy(file_);
  }
  TemporaryDirectory directory_;
  fs::path file_ = directory_ / "a.npy";
};

TEST_F(NpyTest, EveryTypeAndShapeComesBack) {
  const auto round_trip = [&](const Array& array) {
    const uint64_t hash = write_npy(file_, array);
    EXPECT_EQ(hash, hash_file(file_));
    const Array back = read_npy(file_);
    EXPECT_EQ(back.shape(), array.shape());
    EXPECT_TRUE(std::ranges::equal(back.bytes(), array.bytes()));
    EXPECT_EQ(uintptr_t(back.bytes().data()) % 64, 0u);
    return back.dtype();
  };
  EXPECT_EQ(round_trip(Array::from<uint8_t>({1, 2, 255})), DType::u8);
  EXPECT_EQ(round_trip(Array::from<uint16_t>({1, 2, 3, 4, 5, 60000}, {2, 3})), DType::u16);
  EXPECT_EQ(round_trip(Array::from<uint32_t>({}, {2, 0})), DType::u32);
  EXPECT_EQ(round_trip(Array::from<uint64_t>({1ull << 63})), DType::u64);
  EXPECT_EQ(round_trip(Array::from<int32_t>({-1})), DType::i32);
  EXPECT_EQ(round_trip(Array::from<int64_t>({-1, 2})), DType::i64);
  EXPECT_EQ(round_trip(Array::from<float>({1.5f}, {})), DType::f32);
  EXPECT_EQ(round_trip(Array::from<double>({1.5, 2, 3, 4}, {1, 2, 1, 2})), DType::f64);
  EXPECT_EQ(round_trip(Array::from<BFloat16>({BFloat16(1.5f)})), DType::u16);
}

TEST_F(NpyTest, RowByRowGivesTheSameBytesAsAtOnce) {
  std::vector<uint16_t> values(3 * 1001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = uint16_t(i * 7);
  write_npy(directory_ / "once.npy", Array::from(values, {1001, 3}));
  NpyWriter writer(file_, DType::u16, {3});
  for (size_t row = 0; row < 1001; row += 7)
    writer.append(std::span<const uint16_t>(values).subspan(row * 3, 21));
  EXPECT_EQ(writer.shape(), (Shape{1001, 3}));
  const uint64_t hash = writer.close();
  EXPECT_EQ(hash, hash_file(file_));
  EXPECT_EQ(read_text(file_), read_text(directory_ / "once.npy"));
}

TEST_F(NpyTest, AMappedArrayOutlivesItsFile) {
  write_npy(file_, Array::from<uint32_t>({7, 8, 9}));
  const Array array = read_npy(file_);
  fs::remove(file_);
  EXPECT_EQ(array.as<uint32_t>()[2], 9u);
}

TEST_F(NpyTest, ReadsWhatNumPyMayWrite) {
  const Array plain = read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12));
  EXPECT_EQ(plain.shape(), Shape{3});
  EXPECT_EQ(read(npy("{'descr':'|b1','fortran_order':False,'shape':(2,)}", 2)).dtype(), DType::u8);
  EXPECT_EQ(
      read(npy("{\"shape\": (2, 3), \"fortran_order\": False, \"descr\": \"|u1\"}", 6)).shape(),
      (Shape{2, 3}));
  // With one dimension both orders are the same.
  EXPECT_EQ(read(npy("{'descr': '<u2', 'fortran_order': True, 'shape': (3,), }", 6)).size(), 3u);
  for (const int version : {2, 3})
    EXPECT_EQ(
        read(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 8, version)).size(),
        1u);
}

TEST_F(NpyTest, RefusesByName) {
  const auto header = [](std::string descr, std::string order, std::string shape) {
    return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  };
  EXPECT_ERROR(read(""), "the file is empty");
  EXPECT_ERROR(read("sample,label\n1,2\n"), "not a .npy file");
  EXPECT_ERROR(read("\x93NUMPY\x01"), "ends inside its header");
  EXPECT_ERROR(read(std::string("\x93NUMPY\x01\0\x10", 9)), "ends inside its header");
  EXPECT_ERROR(read(std::string("\x93NUMPY\x01\0\xff\xff{", 11)), "ends inside its header");
  EXPECT_ERROR(read(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{", 13)), "ends inside its header");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(2,)"), 8, 4)), "version 4");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(2,)"), 7)), "truncated: 7 bytes of data, 8");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(2,)"), 9)), "1 bytes after its array");
  EXPECT_ERROR(read(npy(header("'<f4'", "True", "(2, 2)"), 16)), "Fortran order");
  EXPECT_ERROR(read(npy(header("'>f4'", "False", "(2,)"), 8)), "big endian");
  EXPECT_ERROR(read(npy(header("'|O'", "False", "(2,)"), 16)), "Python objects");
  EXPECT_ERROR(read(npy(header("[('a', '<f4')]", "False", "(2,)"), 8)), "structures");
  EXPECT_ERROR(read(npy(header("'<c8'", "False", "(2,)"), 16)), "element type '<c8'");
  EXPECT_ERROR(read(npy(header("'\n\x1b[2J'", "False", "(2,)"), 16)), "element type '??[2J'");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(-1,)"), 8)), "other than a count");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(99999999999999999999,)"), 8)), "64 bits");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(4294967296, 4294967296)"), 0)), "64 bits");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(0, 4294967296, 4294967296)"), 0)), "64 bits");
  EXPECT_ERROR(read(npy(header("'<f8'", "False", "(2305843009213693952,)"), 0)), "64 bits");
  EXPECT_ERROR(read(npy(header("'<f4'", "False", "(2, 3"), 24)), "other than a count");
  EXPECT_ERROR(read(npy(header("'<f4'", "Maybe", "(2,)"), 8)), "True or False");
  EXPECT_ERROR(read(npy("{'descr': '<f4', 'shape': (2,)}", 8)), "lacks");
  EXPECT_ERROR(read(npy("{'descr': '<f4', 'descr': '<f4'}", 8)), "two entries 'descr'");
  EXPECT_ERROR(read(npy("{'evil': '<f4'}", 8)), "unknown entry 'evil'");
  std::string deep = "(";
  for (int i = 0; i < 40; ++i) deep += "1, ";
  EXPECT_ERROR(read(npy(header("'<f4'", "False", deep + ")"), 4)), "dimensions");
  std::string odd = npy(header("'<f8'", "False", "(1,)"), 8);
  odd.insert(odd.find('}') + 1, " ");  // one byte more of header: data no longer aligned
  ++odd[8];
  EXPECT_ERROR(read(odd), "unaligned");
  EXPECT_ERROR(read_npy(directory_ / "none.npy"), "none.npy: cannot open");
  EXPECT_ERROR(read_npy(directory_.path()), "not a regular file");
}

// Whatever happens to a header, the answer is an Error or an array whose every byte can be read.
TEST_F(NpyTest, DamagedHeadersNeverCrash) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  write_npy(file_, Array::from<uint16_t>({1, 2, 3, 4, 5, 6}, {2, 3}));
  const std::string whole = read_text(file_);
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string bytes = whole;
    const uint64_t changes = 1 + random.below(4);
    for (uint64_t c = 0; c < changes; ++c)
      bytes[random.below(70)] =
          random.below(2) ? char(random.next()) : "(){}[],:'0189- TF"[random.below(17)];
    if (random.below(4) == 0) bytes.resize(random.below(bytes.size() + 1));
    try {
      const Array array = read(bytes);
      uint64_t sum = 0;
      for (const std::byte byte : array.bytes()) sum += uint64_t(byte);
      EXPECT_LE(sum, 255u * bytes.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace lacuna
