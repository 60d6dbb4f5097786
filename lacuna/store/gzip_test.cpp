#include "lacuna/store/gzip.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

// As zlib itself writes it.
std::string gzip(const std::string& text, const fs::path& scratch) {
  const gzFile file = gzopen(scratch.c_str(), "wb");
  EXPECT_EQ(gzwrite(file, text.data(), unsigned(text.size())), int(text.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
  return read_text(scratch);
}

std::string contents(const fs::path& path, size_t piece_bytes) {
  GzipFile file(path);
  std::string text, piece(piece_bytes, ' ');
  while (const size_t got = file.read(piece)) text.append(piece, 0, got);
  EXPECT_EQ(file.bytes_read(), file.bytes());
  EXPECT_EQ(file.bytes(), fs::file_size(path));
  return text;
}

std::string random_text(Random& random, uint64_t bytes) {
  std::string text(bytes, ' ');
  for (char& c : text) c = char(random.below(20) ? 'a' + random.below(4) : random.next());
  return text;
}

TEST(Gzip, WhatWasPackedComesBack) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory folder;
  for (const uint64_t bytes :
       {uint64_t(0), uint64_t(1), uint64_t(2), 300'000 + random.below(2 << 20)})
    for (const size_t piece : {size_t(1000), size_t(1) << 20}) {
      const std::string text = "." + random_text(random, bytes);  // not gzip's first bytes
      write_file(folder / "plain", text);
      EXPECT_TRUE(contents(folder / "plain", piece) == text);
      write_file(folder / "one", gzip(text, folder / "scratch"));
      EXPECT_TRUE(contents(folder / "one", piece) == text);
      write_file(folder / "two", gzip(text, folder / "scratch") + gzip("", folder / "scratch") +
                                     gzip("more", folder / "scratch") + std::string(1000, '\0'));
      EXPECT_TRUE(contents(folder / "two", piece) == text + "more");
    }
  write_file(folder / "empty", "");
  EXPECT_EQ(contents(folder / "empty", 10), "");
  write_file(folder / "empty", gzip("", folder / "scratch"));
  EXPECT_EQ(contents(folder / "empty", 10), "");
}

TEST(Gzip, WhatStandsBehindIsRefusedWithItsPlace) {
  const TemporaryDirectory folder;
  const std::string packed = gzip("some text", folder / "scratch");
  for (const std::string behind : {"garbage", "\x1f", "\n"})
    for (const size_t zeros : {size_t(0), size_t(700'000)}) {
      write_file(folder / "f", packed + std::string(zeros, '\0') + behind);
      EXPECT_ERROR(contents(folder / "f", 100),
                   fmt::format("/f: something else stands behind its gzip data, at byte {}",
                               packed.size() + zeros));
    }
  write_file(folder / "f", packed + "\x1f\x8b and then something else");
  EXPECT_ERROR(contents(folder / "f", 100), "/f: damaged or cut short near byte");
}

TEST(Gzip, DamageAndCutsAreErrors) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory folder;
  const std::string text = "." + random_text(random, 20'000);
  const std::string packed = gzip(text, folder / "scratch");
  for (size_t cut = 2; cut < packed.size(); cut += 1 + random.below(50)) {
    write_file(folder / "f", packed.substr(0, cut));
    EXPECT_ERROR(contents(folder / "f", 1000), "/f: damaged or cut short");
  }
  int errors = 0;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = packed;
    const size_t byte = 10 + random.below(packed.size() - 10);  // after gzip's header
    damaged[byte] = char(damaged[byte] ^ 1 << random.below(8));
    write_file(folder / "f", damaged);
    try {  // the last byte of the data may have bits that mean nothing
      EXPECT_EQ(contents(folder / "f", 1000), text) << byte;
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 280);
}

TEST(Gzip, WhatIsNoFileIsNamed) {
  const TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(GzipFile(folder / "pipe"), "/pipe: not a regular file");
  EXPECT_ERROR(GzipFile(folder / "none"), "/none: cannot open");
  EXPECT_ERROR(GzipFile(folder.path()), "not a regular file");
}

}  // namespace
}  // namespace lacuna
