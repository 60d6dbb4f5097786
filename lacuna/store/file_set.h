// Files that are replaced together: a JSON file, the index, that names them with their bytes and
// XXH3, and one folder beside it in which they lie.
//
//   FileSetWriter writer(run, "evaluation.json", "predictions");
//   writer.add("test.sample.npy", numbers);
//   writer.commit(json, is_ours);  // json with the member "files", sealed (core/seal.h)
//
//   const FileSet files = FileSet::from_index(run, json);
//   const Array numbers = read_npy(files.find("predictions/test.sample.npy"));
//
// A kill, or a loss of power, at any moment leaves the old set or the new, whole:
//
//   1. a writer that was killed inside step 4 is finished;
//   2. every new file is written beside the old as NAME.new, and flushed;
//   3. the index is replaced by rename: from here on the set is the new one;
//   4. each NAME.new is renamed to NAME, and files that only the old set had are removed.
//
// Up to 3 nothing of the old set is touched; after 3 the bytes that the index names lie under NAME
// or NAME.new, and a reader takes whichever of the two has them. So a reader that goes through the
// index never sees a mixture; one that opens NAME alone may see the old one for as long as step 4
// takes, or, after a kill inside it, until the set is written again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/system/file.h"
#include "lacuna/core/text/json.h"
#include "lacuna/store/directory_lock.h"

namespace lacuna {

struct ListedFile {
  std::string name;  // "predictions/test.sample.npy"
  uint64_t bytes = 0, xxh3 = 0;
  bool operator==(const ListedFile&) const = default;
};

class FileSet {
 public:
  FileSet() = default;
  // From an index's member "files"; empty where there is none (an older version wrote it). Throws
  // Json::exception or Error for a malformed member.
  static FileSet from_index(const fs::path& root, const Json& index);
  static FileSet from_files(const fs::path& root, std::vector<ListedFile> files);

  const std::vector<ListedFile>& files() const { return files_; }
  const ListedFile* listed(const std::string& name) const;  // null: not named
  // Where the file lies, its bytes checked. Throws Error that names the file where it is not named,
  // is missing or has other bytes.
  fs::path find(const std::string& name) const;
  void check() const;  // find() for all
  Json to_json() const;

 private:
  fs::path root_;
  std::vector<ListedFile> files_;
};

class FileSetWriter {
 public:
  // Step 1. Makes root and folder, and waits for another writer of the same folder.
  FileSetWriter(const fs::path& root, std::string index, std::string folder);
  ~FileSetWriter();  // without commit(): the old set stays, what was added is removed
  FileSetWriter(const FileSetWriter&) = delete;
  FileSetWriter& operator=(const FileSetWriter&) = delete;

  void add(const std::string& name, const Array& array);  // step 2; name: "test.sample.npy"
  // Steps 3 and 4. is_ours: whether a file of the folder, by name, may be removed when it is not in
  // the new set; the user's own files stay.
  void commit(Json index, const std::function<bool(const std::string&)>& is_ours);

 private:
  fs::path path_of(const std::string& name) const { return root_ / folder_ / name; }

  fs::path root_;
  std::string index_, folder_;
  std::unique_ptr<DirectoryLock> lock_;
  std::vector<ListedFile> added_;
  bool is_committed_ = false;
};

}  // namespace lacuna
