#include "lacuna/masks/mask_store.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/text.h"
#include "lacuna/masks/store_pages.h"
#include "lacuna/store/directory_lock.h"
#include "lacuna/store/lmdb.h"

namespace lacuna {
namespace {

constexpr std::string_view kDisk = "disk:";

// "edges of type 'physical'", from "edges gene.physical.gene".
std::string part_in_words(const std::string& part) {
  constexpr std::string_view kEdges = "edges ", kNodes = "nodes ";
  if (part.starts_with(kNodes))
    return fmt::format("nodes of type '{}'", part.substr(kNodes.size()));
  if (!part.starts_with(kEdges)) return part;
  const std::string key = part.substr(kEdges.size());
  const size_t first = key.find('.'), last = key.rfind('.');
  const bool between_genes = key.starts_with("gene.") && key.ends_with(".gene") && first < last;
  return fmt::format("edges of type '{}'",
                     between_genes ? key.substr(first + 1, last - first - 1) : key);
}

const MaskStoreContents::Section* find_section(const MaskStoreContents& contents,
                                               const std::string& part) {
  const size_t space = part.find(' ');
  const std::string name = part == "genes" ? "gene" : part.substr(space + 1);
  for (const auto& section : contents.sections)
    if (section.name == name) return &section;
  return nullptr;
}

// " (144211 here, 144190 there)"; nothing where the counts do not tell.
std::string counts_in_words(const std::string& part, const MaskStoreContents& here,
                            const MaskStoreContents& there) {
  const auto* const ours = find_section(here, part);
  const auto* const theirs = find_section(there, part);
  if (!ours && !theirs) return "";
  if (!ours) return fmt::format(" (none here, {} there)", theirs->count);
  if (!theirs) return fmt::format(" ({} here, none there)", ours->count);
  if (ours->count == theirs->count) return fmt::format(" ({} in both)", ours->count);
  return fmt::format(" ({} here, {} there)", ours->count, theirs->count);
}

MaskHeader header_of(std::span<const std::byte> value) {
  MaskHeader header;
  std::memcpy(&header, value.data(), sizeof header);
  return header;
}

// Which samples' records were found whole. Any number of threads may set and ask.
class SampleSet {
 public:
  explicit SampleSet(uint64_t samples) : words_((samples + 63) / 64) {}
  bool has(uint64_t sample) const {
    return words_[sample / 64].load(std::memory_order_relaxed) >> (sample % 64) & 1;
  }
  void add(uint64_t sample) {
    words_[sample / 64].fetch_or(uint64_t(1) << (sample % 64), std::memory_order_relaxed);
  }

 private:
  std::vector<std::atomic<uint64_t>> words_;
};

}  // namespace

std::string disk_rung(MaskForm form) { return fmt::format("{}{}", kDisk, name(form)); }

MaskForm form_of_disk_rung(std::string_view rung) {
  for (const MaskForm form : {MaskForm::u8, MaskForm::bits, MaskForm::bf16, MaskForm::positions})
    if (disk_rung(form) == rung) return form;
  throw Error(
      "'{}' is not a rung that lies on disk; disk:u8, disk:bits, disk:bf16 and "
      "disk:positions do",
      rung);
}

std::string prepare_command(const Screen& screen, MaskForm form, const fs::path& store) {
  return fmt::format("lacuna prepare {} --rung {} --out {}", shell_word(screen.path().string()),
                     disk_rung(form), shell_word(store.string()));
}

std::string prepare_command(const Screen& screen, const MaskStoreContents& contents,
                            const fs::path& store) {
  std::string command = prepare_command(screen, contents.form, store);
  const uint64_t all = screen.samples().size(), begin = contents.begin;
  const uint64_t end = std::min(contents.end, all);
  if (begin < end && end - begin < all) command += fmt::format(" --samples {}:{}", begin, end);
  if (contents.view != GeneReactionView::gene)
    command += fmt::format(" --view {}", name(contents.view));
  return command;
}

std::string mask_key(uint64_t sample) {
  LACUNA_ASSERT(sample <= UINT32_MAX);
  return {char(sample >> 24), char(sample >> 16), char(sample >> 8), char(sample)};
}

DirectoryFormat MaskStoreContents::format() {
  return {kFormat, kVersion, {StorePages::kData, "lock.mdb", StorePages::kFile}};
}

MaskStoreContents MaskStoreContents::of(const Screen& screen, const RemovalRules& rules,
                                        MaskForm form, uint64_t begin, uint64_t end) {
  const uint64_t samples = screen.samples().size();
  if (begin > end)
    throw Error("samples {0}:{1} asked for, which ends before it begins; did you mean {1}:{0}?",
                begin, end);
  if (end > samples)
    throw Error("samples {}:{} asked for, but {} has {}", begin, end, screen.path().string(),
                samples);
  MaskStoreContents contents;
  contents.form = form;
  contents.view = rules.view();
  contents.begin = begin;
  contents.end = end;
  for (const auto& section : rules.sections())
    contents.sections.push_back({section.name, section.count});
  contents.fingerprint = screen.fingerprint().only({"genes", "nodes ", "edges "});
  contents.fingerprint.add("rules", rules.hash());
  const Fingerprint removed =
      fingerprint_of_removed(screen.samples(), begin, end, screen.fingerprint());
  for (const auto& part : removed.parts()) contents.fingerprint.add(part.name, part.hash);
  return contents;
}

Json MaskStoreContents::to_json() const {
  Json parts = Json::array();
  for (const auto& section : sections)
    parts.push_back({{"name", section.name}, {"count", section.count}});
  return {{"of", kOf},
          {"rung", disk_rung(form)},
          {"samples", {{"begin", begin}, {"end", end}}},
          {"settings", {{"gene_reaction_view", name(view)}}},
          {"sections", parts},
          {"fingerprint", fingerprint.to_json()}};
}

MaskStoreContents MaskStoreContents::from_json(const Json& json, const fs::path& store) {
  const std::string of = json.value("of", kOf);  // the first ones did not say
  if (of != kOf)
    throw Error("{}: a store of a {}, not of a {}; `lacuna prepare SCREEN` makes one of those",
                store.string(), of, kOf);
  MaskStoreContents contents;
  contents.form = form_of_disk_rung(json.at("rung").get<std::string>());
  contents.begin = json.at("samples").at("begin").get<uint64_t>();
  contents.end = json.at("samples").at("end").get<uint64_t>();
  contents.view =
      gene_reaction_view_from_name(json.at("settings").at("gene_reaction_view").get<std::string>());
  for (const auto& section : json.at("sections"))
    contents.sections.push_back(
        {section.at("name").get<std::string>(), section.at("count").get<uint64_t>()});
  contents.fingerprint = Fingerprint::from_json(json.at("fingerprint"));
  return contents;
}

void MaskStoreContents::check_made_for(const Screen& screen, const fs::path& store) const {
  // The store may be right and the screen the wrong one.
  const std::string mend = fmt::format(
      "name the screen that it was made for (`lacuna info {}` says), or make it anew with `{} "
      "--again`",
      shell_word(store.string()), prepare_command(screen, *this, store));
  const uint64_t samples = screen.samples().size();
  if (end > samples)
    throw Error("store {} was made for other samples: it holds {} to {}, but {} has {}; {}",
                store.string(), begin, end - 1, screen.path().string(), samples, mend);
  const MaskStoreContents here = of(screen, RemovalRules(screen.graph(), view), form, begin, end);
  std::vector<std::string> differing = here.fingerprint.differing_parts(fingerprint);
  for (const auto& part : fingerprint.differing_parts(here.fingerprint))
    if (!here.fingerprint.find(part)) differing.push_back(part);
  if (differing.empty()) return;
  const bool of_samples = differing[0].starts_with("samples ");
  const bool of_rules = differing[0] == "rules";
  std::string words;
  for (size_t i = 0; i < differing.size() && i < 3; ++i)
    words += (i > 0 ? ", " : "") + part_in_words(differing[i]) + " differ" +
             counts_in_words(differing[i], here, *this);
  if (differing.size() > 3) words += fmt::format(" and {} more parts", differing.size() - 3);
  throw Error("store {} was made for {}: {}; {}", store.string(),
              of_samples ? "other samples"
              : of_rules ? "other rules of removal"
                         : "another graph",
              words, mend);
}

// ---- reading

struct MaskStore::State {
  State(Directory opened, const Screen& screen, MaskStoreContents held)
      : directory(std::move(opened)),
        contents(std::move(held)),
        lock(directory.path(), DirectoryLock::Use::reading),
        layout(RemovalRules(screen.graph(), contents.view), MaskForm::u8),
        record_bytes(lacuna::record_bytes(layout, contents.form)),
        whole(contents.end - contents.begin) {
    const std::string path = shell_word(directory.path().string());
    mend = fmt::format(
        "`lacuna verify {} --screen {} --all` looks for more, and `{} --again` makes the store "
        "anew",
        path, shell_word(screen.path().string()),
        prepare_command(screen, contents, directory.path()));
    const StorePages pages = StorePages::of(directory);
    pages.check();
    environment.emplace(directory.path());
    transaction.emplace(*environment);
    bytes = directory.bytes() + pages.file_bytes();
  }

  // Nothing where there is none.
  std::span<const std::byte> value(uint64_t sample) const {
    const std::string key = mask_key(sample);
    const std::lock_guard guard(mutex);
    return transaction->get(key).value_or(std::span<const std::byte>());
  }

  Directory directory;
  MaskStoreContents contents;
  DirectoryLock lock;
  MaskLayout layout;
  uint64_t record_bytes;  // 0 for positions
  uint64_t bytes = 0;
  mutable SampleSet whole;  // samples whose record was read against its checksum, from begin on
  std::string mend;         // commands, for messages
  std::optional<LmdbEnvironment> environment;
  std::optional<LmdbTransaction> transaction;
  mutable std::mutex mutex;  // a transaction belongs to one thread at a time; what it gives to all
};

bool check_store_manifest(const Directory& store) {
  Json manifest = store.manifest();
  if (store.is_manifest_checked()) return true;
  if (!manifest.contains("xxh3")) return false;
  std::string stated;
  read_manifest(store.path(), [&] { stated = manifest.at("xxh3").get<std::string>(); });
  for (const char* const key : {"format", "version", "files", "xxh3"}) manifest.erase(key);
  if (hex(hash64(manifest.dump())) != stated)
    throw Error("{}: manifest.json has changed; restore it or make the store again",
                store.path().string());
  return true;
}

Directory open_mask_directory(const fs::path& path, const Screen& screen,
                              MaskStoreContents& contents) {
  // What is being written is not unfinished for good: that is told first.
  std::optional<DirectoryLock> lock;
  if (fs::is_directory(path)) lock.emplace(path, DirectoryLock::Use::reading);
  if (const auto whose = DirectoryWriter::unfinished_purpose(path)) {
    std::string command =
        fmt::format("lacuna prepare {} --rung RUNG --out {}", shell_word(screen.path().string()),
                    shell_word(path.string()));
    if (!whose->is_null())  // it did not get so far as to say what it was to hold
      read_manifest(path, [&] {
        command = prepare_command(screen, MaskStoreContents::from_json(*whose, path), path);
      });
    throw Error("{}: unfinished, the run that wrote it was interrupted; run `{}` to go on with it",
                path.string(), command);
  }
  const Directory directory =
      Directory::open(path, MaskStoreContents::kFormat, MaskStoreContents::kVersion);
  check_store_manifest(directory);
  directory.check(Progress::none());  // pages.npy
  read_manifest(path, [&] { contents = MaskStoreContents::from_json(directory.manifest(), path); });
  contents.check_made_for(screen, path);
  return directory;
}

MaskStore MaskStore::open(const fs::path& path, const Screen& screen) {
  MaskStoreContents contents;
  const Directory directory = open_mask_directory(path, screen, contents);
  MaskStore store;
  store.state_ = std::make_shared<const State>(directory, screen, std::move(contents));
  return store;
}

const fs::path& MaskStore::path() const { return state_->directory.path(); }
MaskForm MaskStore::form() const { return state_->contents.form; }
const MaskLayout& MaskStore::layout() const { return state_->layout; }
GeneReactionView MaskStore::view() const { return state_->contents.view; }
uint64_t MaskStore::begin() const { return state_->contents.begin; }
uint64_t MaskStore::end() const { return state_->contents.end; }
uint64_t MaskStore::bytes() const { return state_->bytes; }

std::span<const std::byte> MaskStore::record(uint64_t sample) const {
  if (sample < begin() || sample >= end())
    throw Error(
        "sample {} is not in store {}, which holds {} to {}; run `lacuna prepare` again to "
        "add it",
        sample, path().string(), begin(), end() - 1);
  const auto value = state_->value(sample);
  const auto refuse = [&](const char* what) {
    throw Error("store {}: {} sample {}; {}", path().string(), what, sample, state_->mend);
  };
  if (value.empty()) refuse("there is no value for");
  if (value.size() < sizeof(MaskHeader)) refuse("damaged value of");
  const MaskHeader header = header_of(value);
  const uint64_t bytes = value.size() - sizeof(MaskHeader);
  const MaskHeader expected = {.form = uint32_t(form()),
                               .sample = sample,
                               .xxh3 = header.xxh3,
                               .bytes = state_->record_bytes ? state_->record_bytes : bytes};
  if (header != expected || header.bytes != bytes) refuse("damaged header of");
  const auto record = value.subspan(sizeof(MaskHeader));
  if (state_->whole.has(sample - begin())) return record;
  if (hash64(record) != header.xxh3) refuse("damaged record of");
  state_->whole.add(sample - begin());
  return record;
}

}  // namespace lacuna
