#include "lacuna/masks/store_pages.h"

#include <algorithm>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

constexpr uint64_t kPageHeader = 16;  // bytes before a value in pages of its own

// Pages first to first + count - 1.
struct Run {
  uint64_t first, count;
};

// The pages that hold large values.
std::vector<Run> value_runs(const LmdbTransaction& view, uint64_t page_bytes) {
  std::vector<Run> runs;
  for (LmdbCursor cursor(view); cursor.next();) {
    throw_if_stopped();
    const uint64_t offset = cursor.value_offset();
    if (offset % page_bytes != kPageHeader) continue;  // inside a page of the tree
    const uint64_t bytes = kPageHeader + cursor.value().size();
    runs.push_back({offset / page_bytes, (bytes + page_bytes - 1) / page_bytes});
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
  return runs;
}

uint64_t hash_page(std::span<const std::byte> file, uint64_t page, uint64_t page_bytes) {
  return hash64(file.subspan(page * page_bytes, page_bytes));
}

}  // namespace

StorePages StorePages::measure(const fs::path& directory) {
  const LmdbEnvironment environment(directory);
  const LmdbTransaction view(environment);
  StorePages pages;
  pages.data_ = directory / kData;
  pages.page_bytes_ = environment.page_bytes();
  pages.file_bytes_ = environment.bytes_used();
  const MappedFile file(pages.data_);
  LACUNA_ASSERT(file.bytes().size() == pages.file_bytes_);
  uint64_t page = 0;
  const auto add_until = [&](uint64_t end) {
    for (; page < end; ++page) {
      throw_if_stopped();
      pages.sums_.push_back(page);
      pages.sums_.push_back(hash_page(file.bytes(), page, pages.page_bytes_));
    }
  };
  for (const Run& run : value_runs(view, pages.page_bytes_)) {
    add_until(run.first);
    page = run.first + run.count;
  }
  add_until(pages.file_bytes_ / pages.page_bytes_);
  return pages;
}

StorePages StorePages::of(const Directory& store) {
  StorePages pages;
  pages.data_ = store.path() / kData;
  read_manifest(store.path(), [&] {
    const Json& lmdb = store.manifest().at("lmdb");
    pages.file_bytes_ = lmdb.at("bytes").get<uint64_t>();
    pages.page_bytes_ = lmdb.at("page_bytes").get<uint64_t>();
  });
  const Array array = store.array(kFile);
  const auto sums = array.as<uint64_t>();
  const bool has_pages = array.shape().size() == 2 && array.shape()[1] == 2;
  if (!has_pages || pages.page_bytes_ == 0 || pages.file_bytes_ % pages.page_bytes_ != 0)
    throw Error("{}: {} does not fit the manifest; make the store again", store.path().string(),
                kFile);
  pages.sums_.assign(sums.begin(), sums.end());
  for (uint64_t i = 0; i < pages.size(); ++i)
    if (pages.sums_[2 * i] >= pages.file_bytes_ / pages.page_bytes_ ||
        (i > 0 && pages.sums_[2 * i] <= pages.sums_[2 * i - 2]))
      throw Error("{}: {} is damaged at row {}; make the store again", store.path().string(), kFile,
                  i);
  return pages;
}

Array StorePages::array() const { return Array::from(sums_, {size(), 2}); }

Json StorePages::to_json() const {
  return {{"file", kData}, {"bytes", file_bytes_}, {"page_bytes", page_bytes_}};
}

std::vector<std::string> StorePages::faults() const {
  std::error_code error;
  const uint64_t found = fs::file_size(data_, error);
  if (error) return {fmt::format("{}: missing", data_.string())};
  std::vector<std::string> faults;
  if (found != file_bytes_)
    faults.push_back(fmt::format("{}: {}: {} bytes, {} expected by the manifest", data_.string(),
                                 found < file_bytes_ ? "cut short" : "too long", found,
                                 file_bytes_));
  const MappedFile file(data_);
  for (uint64_t i = 0; i < size(); ++i) {
    throw_if_stopped();
    const uint64_t page = sums_[2 * i];
    if ((page + 1) * page_bytes_ > file.bytes().size()) break;
    if (hash_page(file.bytes(), page, page_bytes_) != sums_[2 * i + 1])
      faults.push_back(
          fmt::format("{}: page {} (bytes {} to {}), which LMDB finds values by, has changed",
                      data_.string(), page, page * page_bytes_, (page + 1) * page_bytes_ - 1));
  }
  return faults;
}

void StorePages::check() const {
  if (const auto all = faults(); !all.empty())
    throw Error("{}; see `lacuna verify`, or restore it, or make the store again", all[0]);
}

}  // namespace lacuna
