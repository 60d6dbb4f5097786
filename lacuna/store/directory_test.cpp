#include "lacuna/store/directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "lacuna/core/random.h"
#include "lacuna/store/testing.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.example";

DirectoryFormat format(int version = 1) {
  return {kFormat, version, {"a/*.npy", "b/*.npy", "old/*.npy", "*.txt", "data.bin", "none.bin"}};
}

class DirectoryTest : public ::testing::Test {
 protected:
  Directory write(int version = 1) {
    DirectoryWriter writer(path_, format(version), {{"command", "test"}});
    writer.add_array("a/numbers.npy", Array::from<uint16_t>({1, 2, 3}));
    writer.add_array("a/halves.npy", Array::from<BFloat16>({BFloat16(1.0f), BFloat16(-2.5f)}));
    writer.add_lines("names.txt", {"α", "", "b c"});
    NpyWriter rows = writer.open_array("b/rows.npy", DType::f32, {2});
    rows.append(std::span<const float>(std::vector<float>{1, 2, 3, 4, 5, 6}));
    writer.add_array("b/rows.npy", rows);
    write_file(path_ / "data.bin", "anything");
    writer.add_file("data.bin");
    writer.commit({{"owner", "a test"}});
    return Directory::open(path_, kFormat, version);
  }
  void edit_manifest(const std::function<void(Json&)>& change) {
    lacuna::edit_manifest(path_, change);
  }
  Directory open() { return Directory::open(path_, kFormat, 1); }

  TemporaryDirectory parent_;
  fs::path path_ = parent_ / "x/y/directory";  // parents are made
};

TEST_F(DirectoryTest, WhatWasWrittenComesBack) {
  const Directory directory = write();
  EXPECT_EQ(Directory::format_of(path_), kFormat);
  EXPECT_TRUE(std::ranges::equal(directory.array("a/numbers.npy").as<uint16_t>(),
                                 std::vector<uint16_t>{1, 2, 3}));
  EXPECT_EQ(float(directory.array("a/halves.npy").as<BFloat16>()[1]), -2.5f);
  EXPECT_EQ(directory.array("b/rows.npy").shape(), (Shape{3, 2}));
  EXPECT_EQ(directory.lines("names.txt"), (std::vector<std::string>{"α", "", "b c"}));
  EXPECT_EQ(directory.manifest().at("owner"), "a test");
  EXPECT_EQ(directory.files().size(), 5u);
  EXPECT_FALSE(fs::exists(path_ / "manifest.partial.json"));
  EXPECT_NO_THROW(directory.check(Progress::none()));
  EXPECT_ERROR(directory.array("a/none.npy"), "names no array a/none.npy");
  EXPECT_ERROR(directory.array("names.txt"), "names no array names.txt");
}

TEST_F(DirectoryTest, ReadersRefuseWhatIsNotOne) {
  EXPECT_ERROR(open(), "no such directory");
  fs::create_directories(path_);
  EXPECT_ERROR(open(), "no manifest.json");
  write_file(parent_ / "file", "text");
  EXPECT_ERROR(Directory::open(parent_ / "file", kFormat, 1), "a file; screens");
  write();
  EXPECT_ERROR(Directory::open(path_, "lacuna.screen", 1), "a lacuna.example, not a lacuna.screen");
}

TEST_F(DirectoryTest, ANewerVersionIsRefusedAndSaysSo) {
  write(7);
  EXPECT_ERROR(open(), "version 7, but this program reads up to version 1; update lacuna");
}

TEST_F(DirectoryTest, DamageToTheManifestIsNamed) {
  write();
  const auto after = [&](const std::function<void(Json&)>& change) {
    const std::string before = read_text(path_ / "manifest.json");
    edit_manifest(change);
    const std::string words = error_of([&] { open(); });
    write_text_atomically(path_ / "manifest.json", before);
    return words;
  };
  EXPECT_NE(after([](Json& m) { m.erase("files"); }).find("'files' not found"), std::string::npos);
  EXPECT_NE(after([](Json& m) { m["version"] = "one"; }).find("damaged"), std::string::npos);
  EXPECT_NE(after([](Json& m) { m["version"] = 0; }).find("version 0"), std::string::npos);
  EXPECT_NE(after([](Json& m) { m = Json::array(); }).find("damaged"), std::string::npos);
  EXPECT_NE(
      after([](Json& m) { m["files"]["../../etc/passwd"] = {}; }).find("not the name of a file"),
      std::string::npos);
  EXPECT_NE(after([](Json& m) { m["files"]["/etc/passwd"] = {}; }).find("not the name of a file"),
            std::string::npos);
  EXPECT_NE(after([](Json& m) { m["files"]["names.txt"]["xxh3"] = "zz"; }).find("16 hex digits"),
            std::string::npos);
  EXPECT_NE(after([](Json& m) { m["files"]["names.txt"]["bytes"] = -1; }).find("expected"),
            std::string::npos);
  EXPECT_NE(after([](Json& m) { m["files"]["b/rows.npy"]["dtype"] = "f99"; }).find("'f99'"),
            std::string::npos);
  write_file(path_ / "manifest.json", "{\"format\": ");
  EXPECT_ERROR(open(), "manifest.json: not valid JSON near byte");
  write_file(path_ / "manifest.json", "");
  EXPECT_ERROR(open(), "not valid JSON");
  write_file(path_ / "manifest.json", std::string(100000, '['));
  EXPECT_ERROR(open(), "manifest.json: brackets are nested deeper than 100");
}

TEST_F(DirectoryTest, DamageToAFileIsNamed) {
  const Directory directory = write();
  std::string bytes = read_text(path_ / "a/numbers.npy");
  bytes.back() ^= 1;
  write_file(path_ / "a/numbers.npy", bytes);
  EXPECT_NO_THROW(open());  // sizes are right; check() reads the bytes
  EXPECT_ERROR(directory.check(Progress::none()), "a/numbers.npy: its bytes have changed");
  write_file(path_ / "a/numbers.npy", bytes.substr(0, bytes.size() - 1));
  EXPECT_ERROR(open(), "a/numbers.npy: 133 bytes, 134 expected");
  fs::remove(path_ / "a/numbers.npy");
  EXPECT_ERROR(open(), "a/numbers.npy: missing");
}

TEST_F(DirectoryTest, AnArrayOfAnotherTypeOrShapeIsRefused) {
  write();
  edit_manifest([](Json& m) { m["files"]["a/numbers.npy"]["shape"] = {3, 1}; });
  EXPECT_ERROR(open().array("a/numbers.npy"), "holds u16 [3], but the manifest says u16 [3, 1]");
  edit_manifest([](Json& m) { m["files"]["b/rows.npy"]["dtype"] = "i32"; });
  EXPECT_ERROR(open().array("b/rows.npy"), "holds f32 [3, 2], but the manifest says i32");
}

TEST_F(DirectoryTest, UnfinishedIsRefusedByReadersAndStartedAfreshByItsWriter) {
  {
    DirectoryWriter writer(path_, format(), {{"command", "the first try"}});
    writer.add_array("old/left.npy", Array::from<uint8_t>({1}));
    EXPECT_EQ(Json::parse(read_text(path_ / "manifest.partial.json"))["whose"]["command"],
              "the first try");
  }
  EXPECT_ERROR(open(), "unfinished");
  EXPECT_ERROR(DirectoryWriter(path_, {"lacuna.other", 1, {}}),
               "an unfinished lacuna.example is there");
  const Directory directory = write();
  EXPECT_FALSE(fs::exists(path_ / "old"));
  EXPECT_NO_THROW(directory.check(Progress::none()));
}

TEST_F(DirectoryTest, AFinishedOneCanBeReopenedAndGoneOnWith) {
  write();
  EXPECT_FALSE(DirectoryWriter::unfinished_purpose(path_));
  const std::string array = read_text(path_ / "a/numbers.npy");
  DirectoryWriter::reopen(path_, {{"of", "mine"}});
  EXPECT_ERROR(open(), "unfinished");
  EXPECT_EQ(DirectoryWriter::unfinished_purpose(path_)->at("of"), "mine");
  using Leftover = DirectoryWriter::Leftover;
  {
    DirectoryWriter writer(path_, format(), {{"of", "yours"}}, Leftover::keep);
    EXPECT_EQ(read_text(path_ / "a/numbers.npy"), array);
    writer.add_file("a/numbers.npy");
    writer.commit({});
  }
  EXPECT_NO_THROW(open().check(Progress::none()));
  EXPECT_FALSE(DirectoryWriter::unfinished_purpose(path_));
  DirectoryWriter::reopen(path_, Json());
  EXPECT_TRUE(DirectoryWriter::unfinished_purpose(path_)->is_null());
  DirectoryWriter(path_, format());
  EXPECT_FALSE(fs::exists(path_ / "a/numbers.npy"));
}

TEST_F(DirectoryTest, WriterLeavesOtherThingsAlone) {
  fs::create_directories(path_);
  EXPECT_NO_THROW(DirectoryWriter(path_, format()));  // empty: welcome
  write();
  EXPECT_ERROR(DirectoryWriter(path_, format()), "already there and finished");
  const fs::path home = parent_ / "home";
  fs::create_directory(home);
  write_file(home / "thesis.txt", "years of work");
  EXPECT_ERROR(DirectoryWriter(home, format()), "not empty (thesis.txt)");
  EXPECT_EQ(read_text(home / "thesis.txt"), "years of work");
  EXPECT_ERROR(DirectoryWriter(home / "thesis.txt", format()), "a file is there");
}

TEST_F(DirectoryTest, OneWriterAtATime) {
  {
    DirectoryWriter first(path_, format(), {{"command", "lacuna make y"}});
    first.add_lines("names.txt", {"first"});
    const std::string words = error_of([&] { DirectoryWriter(path_, format()); });
    EXPECT_NE(words.find("in use by another program"), std::string::npos) << words;
    EXPECT_NE(words.find(fmt::format("process {} on ", ::getpid())), std::string::npos) << words;
    EXPECT_NE(words.find("lacuna make y); wait until it has ended"), std::string::npos) << words;
    EXPECT_ERROR(DirectoryWriter::check_path(path_, format()), "in use");  // before long work, too
    first.commit({});
    EXPECT_ERROR(DirectoryWriter(path_, format()), "already there and finished");  // lock is free
  }
  EXPECT_EQ(open().lines("names.txt"), std::vector<std::string>{"first"});
  const fs::path other = parent_ / "other";
  { DirectoryWriter interrupted(other, format()); }
  const auto lock = DirectoryWriter::lock(other);  // a caller that has the lock passes it in
  EXPECT_ERROR(DirectoryWriter(other, format()), "in use");
  using Leftover = DirectoryWriter::Leftover;
  DirectoryWriter(other, format(), {}, Leftover::discard, lock.get()).commit({});
}

TEST_F(DirectoryTest, StartingAfreshTakesAwayWhatTheFormatWritesAndNothingElse) {
  const auto unfinished = [&] {
    DirectoryWriter writer(path_, format());
    writer.add_array("a/left.npy", Array::from<uint8_t>({1}));
  };
  for (const char* mine : {"notes.md", "a/notes.md", "sub/x.npy", "manifest.md"}) {
    unfinished();
    fs::create_directories((path_ / mine).parent_path());
    write_file(path_ / mine, "thoughts");
    const fs::path named = fs::path(mine).parent_path() == "sub" ? "sub" : mine;
    EXPECT_ERROR(DirectoryWriter(path_, format()), "holds " + named.string() + ", which is not");
    EXPECT_ERROR(DirectoryWriter::check_path(path_, format()), "move it away");
    EXPECT_TRUE(fs::exists(path_ / mine) && fs::exists(path_ / "a/left.npy")) << mine;
    using Leftover = DirectoryWriter::Leftover;
    EXPECT_NO_THROW(DirectoryWriter(path_, format(), {}, Leftover::keep)) << "harms nothing";
    fs::remove_all(path_ / named);
  }
  unfinished();
  write_file(path_ / "manifest.json.0123456789abcdef.tmp", "{");  // killed in between
  DirectoryWriter(path_, format());
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), {}), 1);  // that it is unfinished
}

TEST_F(DirectoryTest, WriterChecksWhatItIsGiven) {
  DirectoryWriter writer(path_, format());
  EXPECT_ERROR(writer.add_lines("names.txt", {"a", "b\nc"}),
               "line 2 of names.txt would hold a line");
  EXPECT_ERROR(writer.add_lines("bad.txt", {"\xff\xfe"}), "not be valid UTF-8");
  writer.add_lines("good.txt", {"a"});
  EXPECT_ERROR(writer.add_lines("good.txt", {"b"}), "two things would be stored as good.txt");
  EXPECT_ERROR(writer.add_array("../x.npy", Array::from<uint8_t>({1})), "not the name of a file");
  EXPECT_ERROR(writer.add_file("none.bin"), "none.bin: cannot open");
}

TEST_F(DirectoryTest, LinesNeedNoLastLineBreak) {
  write();
  const auto lines_of = [&](const std::string& text) {
    write_file(path_ / "names.txt", text);
    edit_manifest([&](Json& m) { m["files"]["names.txt"]["bytes"] = text.size(); });
    return open().lines("names.txt");
  };
  EXPECT_EQ(lines_of("a\nb"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(lines_of("a\nb\n"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(lines_of("\n"), (std::vector<std::string>{""}));
  EXPECT_EQ(lines_of(""), (std::vector<std::string>{}));
  EXPECT_ERROR(lines_of("a\n\xc3"), "not valid UTF-8");
}

TEST_F(DirectoryTest, AnArrayCanBeAddedToAFinishedOne) {
  write();
  const Array more = Array::from<uint8_t>({1, 2});
  add_array_to(path_, "more/late.npy", more, [](Json& m) { m["owner"] = "a later test"; });
  const Directory directory = open();
  EXPECT_NO_THROW(directory.check(Progress::none()));
  EXPECT_EQ(directory.array("more/late.npy").size(), 2u);
  EXPECT_EQ(directory.manifest().at("owner"), "a later test");
  EXPECT_ERROR(add_array_to(path_, "more/late.npy", more, [](Json&) {}),
               "has a file more/late.npy");
}

TEST_F(DirectoryTest, AFlippedBitAnywhereInTheManifestIsFound) {
  EXPECT_TRUE(write().is_manifest_checked());
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const std::string whole = read_text(path_ / kManifest);
  for (uint64_t byte = 0; byte < whole.size(); ++byte) {
    flip(path_ / kManifest, byte, unsigned(random.below(8)));
    EXPECT_NE(error_of([&] { open(); }).find(path_.string()), std::string::npos) << byte;
    write_file(path_ / kManifest, whole);
  }
  EXPECT_NO_THROW(open());
}

TEST_F(DirectoryTest, AManifestWithoutAChecksumStaysWithoutOne) {
  write();
  add_array_to(path_, "a/late.npy", Array::from<uint8_t>({1}), [](Json&) {});
  remove_file_from(path_, "data.bin", [](Json&) {});
  EXPECT_TRUE(open().is_manifest_checked());
  edit_manifest([](Json& m) { m["owner"] = "somebody else"; });
  EXPECT_FALSE(open().is_manifest_checked());
  // Whether the rest is as it was written is not known, so nothing vouches for it.
  add_array_to(path_, "a/later.npy", Array::from<uint8_t>({1}), [](Json&) {});
  EXPECT_FALSE(open().is_manifest_checked());
  EXPECT_EQ(open().manifest().at("owner"), "somebody else");
}

TEST_F(DirectoryTest, DamageToTheManifestOfAnUnfinishedOneIsFound) {
  { DirectoryWriter writer(path_, format(), {{"command", "test"}}); }
  const std::string text = read_text(path_ / kPartialManifest);
  flip(path_ / kPartialManifest, text.find("test"));
  EXPECT_ERROR(DirectoryWriter::unfinished_purpose(path_), "its bytes have changed");
  EXPECT_ERROR(DirectoryWriter(path_, format()), "its bytes have changed");
}

// A link planted in a shared directory does not make us write or remove files elsewhere.
TEST_F(DirectoryTest, NothingIsWrittenThroughALink) {
  write();
  const fs::path outside = parent_ / "outside", folder = parent_ / "folder";
  write_file(outside, "precious");
  fs::create_symlink(outside, path_ / "a/late.npy");
  add_array_to(path_, "a/late.npy", Array::from<uint8_t>({1, 2}), [](Json&) {});
  EXPECT_EQ(read_text(outside), "precious");
  EXPECT_FALSE(fs::is_symlink(path_ / "a/late.npy"));
  EXPECT_NO_THROW(open().check(Progress::none()));

  fs::create_directory(folder);
  fs::create_symlink(folder, path_ / "c");
  EXPECT_ERROR(add_array_to(path_, "c/x.npy", Array::from<uint8_t>({1}), [](Json&) {}),
               "directory/c: a link");
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_NO_THROW(open().check(Progress::none()));

  // A folder that was moved away and linked to: a file there is not ours to remove.
  fs::rename(path_ / "b", parent_ / "b");
  fs::create_symlink(parent_ / "b", path_ / "b");
  EXPECT_ERROR(remove_file_from(path_, "b/rows.npy", [](Json&) {}), "directory/b: a link");
  EXPECT_TRUE(fs::exists(parent_ / "b/rows.npy"));
  EXPECT_NO_THROW(open().check(Progress::none()));
}

TEST_F(DirectoryTest, WhoGoesOnWithAnUnfinishedOneReplacesALinkToo) {
  { DirectoryWriter writer(path_, format()); }
  write_file(parent_ / "outside", "precious");
  fs::create_symlink(parent_ / "outside", path_ / "names.txt");
  DirectoryWriter writer(path_, format(), {}, DirectoryWriter::Leftover::keep);
  writer.add_lines("names.txt", {"a"});
  writer.commit({});
  EXPECT_EQ(read_text(parent_ / "outside"), "precious");
  EXPECT_EQ(open().lines("names.txt"), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace lacuna
