#include "lacuna/core/system/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <vector>

#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

std::string random_text(Random& random, uint64_t size) {
  std::string text(size, ' ');
  for (char& c : text) c = char(random.next());
  return text;
}

TEST(MappedFile, HasTheBytesOfTheFile) {
  const TemporaryDirectory directory;
  const std::string text("a\0b\n", 4);
  write_file(directory / "f", text);
  const MappedFile file(directory / "f");
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), 4), text);
  EXPECT_EQ(file.bytes().size(), 4u);
}

TEST(MappedFile, BytesLiveAsLongAsTheOwner) {
  const TemporaryDirectory directory;
  write_file(directory / "f", "still here");
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  {
    const MappedFile file(directory / "f");
    bytes = file.bytes();
    owner = file.owner();
  }
  fs::remove(directory / "f");
  EXPECT_EQ(char(bytes[9]), 'e');
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TemporaryDirectory directory;
  write_file(directory / "f", "");
  EXPECT_TRUE(MappedFile(directory / "f").bytes().empty());
  EXPECT_EQ(read_text(directory / "f"), "");
}

TEST(MappedFile, WhatIsNoFileIsNamed) {
  const TemporaryDirectory directory;
  EXPECT_ERROR(MappedFile(directory / "none"), "/none: cannot open: No such file or directory");
  EXPECT_ERROR(MappedFile(directory.path()), directory.path().string() + ": not a regular file");
  EXPECT_ERROR(MappedFile("/dev/zero"), "/dev/zero: not a regular file");
  if (::geteuid() != 0) {  // root may read everything
    write_file(directory / "secret", "x");
    fs::permissions(directory / "secret", fs::perms::none);
    EXPECT_ERROR(MappedFile(directory / "secret"), "/secret: cannot open: Permission denied");
  }
}

TEST(FileWriter, PiecesOfAnySizeArriveInOrder) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory directory;
  FileWriter writer(directory / "f");
  std::string all;
  for (const uint64_t size : {0ul, 1ul, 1000ul, (1ul << 20) - 1001, 1ul, (1ul << 20) - 1, 2ul,
                              1ul << 20, (1ul << 20) + 1, 3ul << 20, 17ul, random.below(1 << 21)}) {
    const std::string piece = random_text(random, size);
    writer.write(piece);
    all += piece;
    ASSERT_EQ(writer.size(), all.size());
  }
  writer.close();
  EXPECT_TRUE(read_text(directory / "f") == all);
}

TEST(FileWriter, TheStartCanBeWrittenLast) {
  const TemporaryDirectory directory;
  FileWriter writer(directory / "f");
  writer.write("????? and the rest");
  writer.write_at_start(std::as_bytes(std::span("first", 5)));
  writer.write(", and more");
  writer.close();
  EXPECT_EQ(read_text(directory / "f"), "first and the rest, and more");
}

TEST(FileWriter, ReplacesAnOlderFile) {
  const TemporaryDirectory directory;
  write_file(directory / "f", "a much longer text than the new one");
  FileWriter writer(directory / "f");
  writer.write("new");
  writer.close();
  EXPECT_EQ(read_text(directory / "f"), "new");
}

TEST(FileWriter, WritingToAClosedOneIsOurMistake) {
  const TemporaryDirectory directory;
  FileWriter writer(directory / "f");
  writer.close();
  EXPECT_THROW(writer.write("late"), std::logic_error);
}

TEST(FileWriter, ErrorsNameTheFile) {
  const TemporaryDirectory directory;
  EXPECT_ERROR(FileWriter(directory / "none/f"), "/none/f: cannot create: No such file");
  EXPECT_ERROR(FileWriter(directory.path()),
               directory.path().string() + ": cannot create: Is a directory");
}

TEST(FileWriter, AFullDiskIsAnErrorThatNamesTheFile) {
  const auto fill = [](uint64_t bytes) {
    FileWriter writer("/dev/full");
    writer.write(std::string(bytes, 'x'));
    writer.close();
  };
  EXPECT_ERROR(fill(10), "/dev/full: cannot write: No space left on device");       // at close
  EXPECT_ERROR(fill(2 << 20), "/dev/full: cannot write: No space left on device");  // at once
}

TEST(FileWriter, AFileSizeLimitIsAnErrorThatNamesTheFile) {
  const TemporaryDirectory directory;
  const auto fill = [&](uint64_t bytes) {
    const FileSizeLimit limit(5000);
    FileWriter writer(directory / "f");
    writer.write(std::string(bytes, 'x'));
    writer.close();
  };
  EXPECT_NO_THROW(fill(5000));
  EXPECT_ERROR(fill(5001), "/f: cannot write: File too large");
  EXPECT_ERROR(fill(2 << 20), "/f: cannot write: File too large");
}

TEST(WriteTextAtomically, LeavesTheNewTextAndNothingElse) {
  const TemporaryDirectory directory;
  write_text_atomically(directory / "f", "old");
  write_text_atomically(directory / "f", "new");
  EXPECT_EQ(read_text(directory / "f"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

TEST(WriteTextAtomically, AFailureLeavesTheOldText) {
  const TemporaryDirectory directory;
  write_text_atomically(directory / "f", "old");
  const auto replace = [&] {
    const FileSizeLimit limit(100);
    write_text_atomically(directory / "f", std::string(200, 'x'));
  };
  EXPECT_ERROR(replace(), "cannot write: File too large");
  EXPECT_EQ(read_text(directory / "f"), "old");
  fs::create_directory(directory / "d");
  EXPECT_ERROR(write_text_atomically(directory / "d", "x"), "/d: cannot rename: Is a directory");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}),
            2);  // a full disk has room
}

TEST(WriteTextAtomically, ManyAtOnceLeaveTheTextOfOne) {
  const TemporaryDirectory directory;
  std::vector<std::future<void>> writers;
  for (const char letter : {'a', 'b', 'c'})
    writers.push_back(std::async(std::launch::async, [&, letter] {
      for (int i = 0; i < 50; ++i)
        write_text_atomically(directory / "f", std::string(1000, letter));
    }));
  for (auto& writer : writers) EXPECT_NO_THROW(writer.get());
  const std::string text = read_text(directory / "f");
  EXPECT_EQ(text, std::string(1000, text.at(0)));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

TEST(HashFile, IsTheHashOfItsBytes) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const TemporaryDirectory directory;
  for (const uint64_t size : {uint64_t(0), uint64_t(1), 1 + random.below(3 << 20)}) {
    const std::string text = random_text(random, size);
    write_file(directory / "f", text);
    uint64_t heard = 0;
    EXPECT_EQ(hash_file(directory / "f", [&](uint64_t bytes) { heard = bytes; }), hash64(text));
    EXPECT_EQ(heard, size);
  }
  EXPECT_ERROR(hash_file(directory / "none"), "/none: cannot open");
  EXPECT_ERROR(hash_file(directory.path()), "cannot read: Is a directory");
}

TEST(Disk, FreeSpaceIsThatOfThePlaceNamed) {
  const TemporaryDirectory directory;
  EXPECT_GT(free_disk_bytes(directory.path()), 0u);
  EXPECT_EQ(free_disk_bytes("/proc"), 0u);
  EXPECT_ERROR(free_disk_bytes(directory / "none"), "/none: cannot read free space");
}

TEST(Disk, SyncOfAMissingDirectoryIsAnError) {
  const TemporaryDirectory directory;
  EXPECT_NO_THROW(sync_directory(directory.path()));
  EXPECT_NO_THROW(sync_directory(""));  // the current one
  EXPECT_ERROR(sync_directory(directory / "none"), "/none: cannot open");
}

}  // namespace
}  // namespace lacuna
