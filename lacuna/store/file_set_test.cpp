#include "lacuna/store/file_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>

#include "lacuna/core/seal.h"
#include "lacuna/core/testing.h"
#include "lacuna/store/kill_testing.h"
#include "lacuna/store/npy.h"

namespace lacuna {
namespace {

using ::testing::HasSubstr;

bool is_ours(const std::string& name) { return name != "mine.npy"; }

// Two files that all hold `value`, and one of `only` alone.
void write_set(const fs::path& root, float value, const std::string& only) {
  FileSetWriter writer(root, "index.json", "data");
  for (const std::string& name : {std::string("a.npy"), std::string("b.npy"), only})
    writer.add(name, Array::from(std::vector<float>(300, value)));
  writer.commit({{"value", value}}, is_ours);
}

FileSet open_set(const fs::path& root) {
  return FileSet::from_index(root, read_sealed_json(root / "index.json").json);
}

// The value that the index and all its files agree on.
float value_of(const fs::path& root) {
  const float value = read_sealed_json(root / "index.json").json.at("value").get<float>();
  const FileSet set = open_set(root);
  EXPECT_EQ(set.files().size(), 3u);
  for (const ListedFile& file : set.files()) {
    const Array array = read_npy(set.find(file.name));
    for (const float element : array.as<float>()) EXPECT_EQ(element, value) << file.name;
  }
  return value;
}

TEST(FileSet, ComesBackAndLeavesNothingOfTheOldButWhatIsTheUsers) {
  TemporaryDirectory folder;
  const fs::path root = folder / "new/run";
  write_set(root, 1, "old.npy");
  EXPECT_EQ(value_of(root), 1);
  write_file(root / "data/mine.npy", "the user's own");
  write_set(root, 2, "new.npy");
  EXPECT_EQ(value_of(root), 2);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(root / "data"))
    names.insert(entry.path().filename().string());
  EXPECT_THAT(names, ::testing::ElementsAre("a.npy", "b.npy", "mine.npy", "new.npy"));
}

TEST(FileSet, AKillAtAnyStepLeavesTheOldOrTheNewWhole) {
  int killed = 0, old = 0;
  for (int k = 0;; ++k) {
    TemporaryDirectory folder;
    const fs::path root = folder.path();
    write_set(root, 1, "old.npy");
    const bool was_killed = killed_at(k, [&] { write_set(root, 2, "new.npy"); });
    const float value = value_of(root);
    EXPECT_TRUE(value == 1 || value == 2) << k;
    killed += was_killed;
    old += value == 1;
    // Killed once more while the next writer repairs that, and then written undisturbed.
    killed_at(k % 7, [&] { write_set(root, 3, "third.npy"); });
    EXPECT_TRUE(value_of(root) == value || value_of(root) == 3) << k;
    write_set(root, 4, "fourth.npy");
    EXPECT_EQ(value_of(root), 4) << k;
    EXPECT_EQ(std::distance(fs::directory_iterator(root / "data"), fs::directory_iterator()), 3);
    if (!was_killed) break;
  }
  EXPECT_GT(old, 10);          // before the switch
  EXPECT_GT(killed - old, 4);  // and behind it
}

TEST(FileSet, AnErrorLeavesTheOldOne) {
  TemporaryDirectory folder;
  write_set(folder.path(), 1, "old.npy");
  {
    FileSetWriter writer(folder.path(), "index.json", "data");
    writer.add("a.npy", Array::from<float>({2}));
    EXPECT_THROW(writer.add("no/such.npy", Array::from<float>({2})), Error);
  }
  EXPECT_EQ(value_of(folder.path()), 1);
  EXPECT_FALSE(fs::exists(folder / "data/a.npy.new"));
}

// The names that a writer takes are known beforehand: somebody may have put links there.
TEST(FileSet, NothingIsWrittenThroughALink) {
  TemporaryDirectory folder;
  const fs::path root = folder / "run";
  write_file(folder / "precious", "mine");
  fs::create_directories(root / "data");
  fs::create_symlink(folder / "precious", root / "data/a.npy.new");
  fs::create_symlink(folder / "precious", root / "data/b.npy");
  write_set(root, 1, "c.npy");
  EXPECT_EQ(value_of(root), 1);
  EXPECT_EQ(read_text(folder / "precious"), "mine");
  fs::rename(root / "data", folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", root / "data");
  EXPECT_ERROR(write_set(root, 2, "c.npy"), "/data is a link");
}

TEST(FileSet, SaysWhichFileIsDamagedOrMissing) {
  TemporaryDirectory folder;
  write_set(folder.path(), 1, "c.npy");
  const std::string whole = read_text(folder / "data/b.npy");
  for (const size_t at : {size_t(0), size_t(20), whole.size() / 2, whole.size() - 1}) {
    std::string bad = whole;
    bad[at] ^= 4;
    write_file(folder / "data/b.npy", bad);
    EXPECT_ERROR(open_set(folder.path()).check(), "data/b.npy is damaged");
    EXPECT_ERROR(open_set(folder.path()).find("data/b.npy"), "data/b.npy is damaged");
    open_set(folder.path()).find("data/a.npy");
  }
  write_file(folder / "data/b.npy", whole.substr(0, 200));
  EXPECT_ERROR(open_set(folder.path()).check(), "its 200 bytes are not the");
  fs::remove(folder / "data/b.npy");
  EXPECT_ERROR(open_set(folder.path()).check(), "data/b.npy is missing");
  EXPECT_ERROR(open_set(folder.path()).find("data/other.npy"), "not among the files");
}

TEST(FileSet, AnOlderIndexHasNoFilesAndAHostileOneLeadsNowhere) {
  TemporaryDirectory folder;
  EXPECT_TRUE(FileSet::from_index(folder.path(), {{"value", 1}}).files().empty());
  for (const char* name : {"../x.npy", "data/../x", "/etc/passwd", "x.npy", "data/a/b.npy"}) {
    Json index;
    index["files"][name] = {{"bytes", 1}, {"xxh3", "0123456789abcdef"}};
    EXPECT_ERROR(FileSet::from_index(folder.path(), index), "which cannot be one of its own");
  }
}

}  // namespace
}  // namespace lacuna
