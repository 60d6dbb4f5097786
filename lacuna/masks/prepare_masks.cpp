#include "lacuna/masks/prepare_masks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/core/text/text.h"
#include "lacuna/masks/mask_sizes.h"
#include "lacuna/masks/store_pages.h"
#include "lacuna/store/directory_lock.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

constexpr uint64_t kTransactionBytes = 64 << 20;
constexpr uint64_t kTransactionSamples = 16384;

// What a directory holds that is to become a store.
struct StoreState {
  enum class Kind { nothing, unfinished, finished } kind = Kind::nothing;
  // Set where there is a store to go on with: not for one that is thrown away.
  std::optional<MaskStoreContents> contents = {};

  bool operator==(const StoreState& other) const {
    const auto json = [](const StoreState& s) {
      return s.contents ? s.contents->to_json() : Json();
    };
    return kind == other.kind && json(*this) == json(other);
  }
};

// Throws Error when `out` is something else than a store, or holds something else beside one that
// is thrown away.
StoreState read_state(const fs::path& out, bool again, const DirectoryLock* held = nullptr) {
  if (!fs::exists(out / "manifest.json")) {
    DirectoryWriter::check_path(out, MaskStoreContents::format(), DirectoryWriter::Leftover::keep,
                                held);
    const auto whose = DirectoryWriter::unfinished_purpose(out);
    if (!whose) return {};
    StoreState state = {StoreState::Kind::unfinished};
    if (again || whose->is_null())
      check_holds_only(out, MaskStoreContents::format());
    else
      read_manifest(out, [&] { state.contents = MaskStoreContents::from_json(*whose, out); });
    return state;
  }
  const std::string format = Directory::format_of(out);
  if (format != MaskStoreContents::kFormat)
    throw Error("{}: a {}, not a store; choose another name", out.string(), format);
  StoreState state = {StoreState::Kind::finished};
  if (again) {
    check_holds_only(out, MaskStoreContents::format());
    return state;
  }
  const auto store = Directory::open(out, MaskStoreContents::kFormat, MaskStoreContents::kVersion);
  read_manifest(out, [&] { state.contents = MaskStoreContents::from_json(store.manifest(), out); });
  return state;
}

// The samples that the store is to hold.
std::pair<uint64_t, uint64_t> wanted_samples(const Screen& screen, const PrepareOptions& options) {
  const uint64_t count = screen.samples().size();
  const auto [begin, end] = options.samples.value_or(std::pair(uint64_t(0), count));
  if (begin >= end || end > count)
    throw Error("samples {}:{} asked for, but {} has {} (0:{} are all)", begin, end,
                screen.path().string(), count, count);
  if (end > uint64_t(UINT32_MAX) + 1)
    throw Error("a store holds samples numbered below 2^32, not {}", end - 1);
  return {begin, end};
}

// Throws Error unless a store that holds `contents` can go on to hold what is wanted.
void check_fits(const MaskStoreContents& contents, const Screen& screen,
                const MaskStoreContents& wanted, const fs::path& out) {
  const std::string mend = fmt::format("choose another name, or throw it away with `{} --again`",
                                       prepare_command(screen, wanted, out));
  if (contents.form != wanted.form)
    throw Error("{}: holds masks of rung {}; {}", out.string(), disk_rung(contents.form), mend);
  if (contents.begin != wanted.begin)
    throw Error("{}: holds samples from {} on; say --samples {}:END to add to them; or {}",
                out.string(), contents.begin, contents.begin, mend);
  if (contents.view != wanted.view)
    throw Error("{}: holds masks by view {}, not {}; {}", out.string(), name(contents.view),
                name(wanted.view), mend);
  contents.check_made_for(screen, out);
}

// "disk:bits needs 107 GB, disk:positions needs 3 GB, "
std::string smaller_rungs(const Screen& screen, const RemovalRules& rules, uint64_t this_one,
                          uint64_t samples) {
  std::string words;
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::positions}) {
    const uint64_t bytes = stored_bytes_per_sample(screen.samples(), rules, form);
    if (bytes < this_one)
      words += fmt::format("{} needs {}, ", disk_rung(form),
                           format_bytes(uint64_t(kRoomMargin * double(bytes * samples))));
  }
  return words;
}

fs::path nearest_existing(fs::path path) {
  path = fs::absolute(path);
  while (!fs::exists(path) && path.has_relative_path()) path = path.parent_path();
  return path;
}

// goes_on: with the store in `out`; else that one is thrown away first.
void check_room(const Screen& screen, const RemovalRules& rules, MaskForm form, uint64_t samples,
                const fs::path& out, bool goes_on, const std::function<uint64_t()>& assumed_free) {
  const fs::path data = out / StorePages::kData;
  const uint64_t present = fs::exists(data) ? fs::file_size(data) : 0;
  const uint64_t each = stored_bytes_per_sample(screen.samples(), rules, form);
  const uint64_t total = each * samples, kept = goes_on ? std::min(present, total) : 0;
  const uint64_t needed = uint64_t(kRoomMargin * double(total - kept));
  const uint64_t free = (assumed_free ? assumed_free() : free_disk_bytes(nearest_existing(out))) +
                        (goes_on ? 0 : present);
  if (needed <= free) return;
  throw Error(
      "{} needed for {}{} samples (with 20% margin), {} free on the disk of {}; {}rung kernel "
      "needs nothing",
      format_bytes(needed), kept > 0 ? "the rest of " : "", samples, format_bytes(free),
      out.string(), smaller_rungs(screen, rules, each, samples));
}

// ---- writing

// Consecutive samples, encoded.
struct Encoded {
  uint64_t first = 0;
  uint64_t count = 0;
  std::vector<std::vector<std::byte>> values = {};  // count of them are in use
};

uint64_t number_of(const std::string& key) {
  uint64_t number = 0;
  for (const char byte : key) number = number << 8 | uint8_t(byte);
  return number;
}

// How many samples from `begin` on the database holds.
uint64_t count_samples(const LmdbWriter& data, uint64_t begin, const fs::path& out) {
  const uint64_t count = data.entries();
  if (count == 0) return 0;
  const std::string first = data.first_key(), last = data.last_key();
  if (first.size() != 4 || last.size() != 4 || number_of(first) != begin ||
      number_of(last) != begin + count - 1)
    throw Error("{}: its data are not samples one after another; delete it or use --again",
                out.string());
  return count;
}

// Where it ended: at `end`, or earlier where it was stopped.
uint64_t write_samples(const MaskEncoder& encoder, const Samples& samples, LmdbWriter& data,
                       uint64_t begin, uint64_t end, uint64_t batch, const PrepareOptions& options,
                       Progress& progress) {
  const RemovedReader removed(samples);
  const auto encode = [&](Encoded& out, uint64_t first) {
    const Unstoppable whole_transactions;
    out.first = first;
    out.count = std::min(batch, end - first);
    if (out.values.size() < out.count) out.values.resize(out.count);
    parallel_for(out.count, options.threads,
                 [&](uint64_t i) { encode_value(encoder, removed, first + i, out.values[i]); });
  };
  progress.begin("preparing", end - begin, "samples");
  Encoded buffers[2];
  Encoded *writing = &buffers[0], *making = &buffers[1];
  encode(*writing, begin);
  uint64_t done = begin;
  for (; done < end && !is_stop_asked(); std::swap(writing, making)) {
    const uint64_t next = done + writing->count;
    std::future<void> made;
    if (next < end) made = std::async(std::launch::async, [&, next] { encode(*making, next); });
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < writing->count; ++i) bytes += writing->values[i].size();
    data.begin(writing->count, bytes);
    for (uint64_t i = 0; i < writing->count; ++i)
      data.append(mask_key(done + i), writing->values[i]);
    data.commit();
    if (made.valid()) made.get();
    progress.advance((done = next) - begin);
  }
  progress.end();
  return done;
}

// A commit that was cut off may have written behind the end of what is in use.
void cut_to_length(const fs::path& file, uint64_t bytes) {
  if (fs::file_size(file) == bytes) return;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) throw_errno(file.string(), "cannot open");
  const bool done = ::ftruncate(fd, off_t(bytes)) == 0 && ::fsync(fd) == 0;
  ::close(fd);
  if (!done) throw_errno(file.string(), "cannot cut to its length");
}

// LMDB would write to wherever it leads.
void check_no_link(const fs::path& file) {
  if (fs::is_symlink(file))
    throw Error(
        "{}: a link, which a store is not written through; delete it, or choose another name",
        file.string());
}

void make_directory(const fs::path& path) {
  std::error_code error;
  if (!fs::create_directories(path, error) && error)
    throw Error("{}: cannot create the directory: {}", path.string(), error.message());
  sync_directory(fs::absolute(path).lexically_normal().parent_path());
}

}  // namespace

void encode_value(const MaskEncoder& encoder, const RemovedReader& removed, uint64_t sample,
                  std::vector<std::byte>& value) {
  thread_local std::vector<uint32_t> genes;
  removed.read(sample, genes);
  value.resize(sizeof(MaskHeader));
  encoder.append(sample, genes, value);
  const auto record = std::span(value).subspan(sizeof(MaskHeader));
  const MaskHeader header = {.form = uint32_t(encoder.form()),
                             .sample = sample,
                             .xxh3 = hash64(record),
                             .bytes = record.size()};
  std::memcpy(value.data(), &header, sizeof header);
}

PrepareResult prepare_masks(const Screen& screen, MaskForm form, const fs::path& out,
                            const PrepareOptions& options, Progress& progress) {
  auto [begin, end] = wanted_samples(screen, options);
  const RemovalRules rules(screen.graph(), options.view);
  const StoreState state = read_state(out, options.again);
  MaskStoreContents wanted;
  wanted.form = form;
  wanted.view = options.view;
  wanted.begin = begin;
  wanted.end = end;
  const bool goes_on = state.contents.has_value();
  if (goes_on) check_fits(*state.contents, screen, wanted, out);
  if (goes_on && state.kind == StoreState::Kind::finished) {
    const uint64_t bytes = MaskStore::open(out, screen).bytes();  // its tree is whole
    if (state.contents->end >= end) return {begin, state.contents->end, 0, bytes};
  }
  check_room(screen, rules, form, end - begin, out, goes_on, options.free_bytes);
  check_no_link(out / StorePages::kData);

  make_directory(out);
  const auto lock = DirectoryWriter::lock(out);
  if (state != read_state(out, options.again, lock.get()))
    throw Error("{}: changed by another program; run this again", out.string());
  if (state.kind == StoreState::Kind::finished)
    DirectoryWriter::reopen(out, goes_on ? state.contents->to_json() : Json());
  if (!goes_on)  // the old manifest goes first, so a crash here cannot pass old data off as new
    DirectoryWriter(out, MaskStoreContents::format(), Json(), DirectoryWriter::Leftover::discard,
                    lock.get());

  const auto contents_until = [&, first = begin](uint64_t last) {
    return MaskStoreContents::of(screen, rules, form, first, last);
  };
  uint64_t first = begin;
  {
    LmdbWriter data(out);
    first += count_samples(data, begin, out);
    end = std::max(end, first);
    DirectoryWriter(out, MaskStoreContents::format(), contents_until(end).to_json(),
                    DirectoryWriter::Leftover::keep, lock.get());
    const MaskEncoder encoder(rules, form);
    const uint64_t batch = std::clamp<uint64_t>(
        kTransactionBytes / stored_bytes_per_sample(screen.samples(), rules, form), 1,
        kTransactionSamples);
    const uint64_t done = first == end ? end
                                       : write_samples(encoder, screen.samples(), data, first, end,
                                                       batch, options, progress);
    if (done < end) return {begin, done, done - first, data.bytes_used(), true};
    cut_to_length(out / StorePages::kData, data.bytes_used());
  }
  DirectoryWriter directory(out, MaskStoreContents::format(), contents_until(end).to_json(),
                            DirectoryWriter::Leftover::keep, lock.get());
  std::optional<StorePages> pages;
  try {
    pages = StorePages::measure(out);
  } catch (const Stopped&) {
    return {begin, end, end - first, fs::file_size(out / StorePages::kData), true};
  }
  directory.add_array(StorePages::kFile, pages->array());
  Json manifest = contents_until(end).to_json();
  manifest["lmdb"] = pages->to_json();
  manifest["made_by"] = options.made_by;
  directory.commit(manifest);
  return {begin, end, end - first, directory.bytes() + pages->file_bytes()};
}

}  // namespace lacuna
