#include "lacuna/run/kept_split.h"

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/json.h"
#include "lacuna/core/text/text.h"
#include "lacuna/store/safetensors.h"

namespace lacuna {
namespace {

constexpr const char* kKey = "lacuna";
constexpr const char* kParts = "parts";

fs::path file_of(const Run& run) { return run.path() / "split.safetensors"; }

std::string hash_of_removed(const Screen& screen, uint64_t count) {
  return hex(fingerprint_of_removed(screen.samples(), 0, count, screen.fingerprint()).value());
}

struct Kept {
  Split split;
  std::string removed;  // hash
};

Kept read_kept(const Run& run) {
  const fs::path file = file_of(run);
  const Safetensors contents = read_safetensors(file);
  if (seal_of(contents) == Seal::broken)
    throw Error(
        "{} is damaged: its bytes are not those that were written; restore it, or train anew with "
        "another --out",
        file.string());
  try {
    const Json json = parse_json(contents.metadata.at(kKey), file.string());
    Kept kept = {{json.at("name").get<std::string>(), contents.arrays.at(kParts), json.at("how")},
                 json.at("removed").get<std::string>()};
    check_layout(kept.split, kept.split.parts.size());
    check_values(kept.split);
    return kept;
  } catch (const Json::exception&) {
  } catch (const std::out_of_range&) {
  }
  throw Error("{} is damaged: it holds no split; restore it, or train anew with another --out",
              file.string());
}

}  // namespace

void keep_split(const Run& run, const Screen& screen, const Split& split) {
  Safetensors contents;
  contents.arrays[kParts] = split.parts;
  const Json json = {{"name", split.name},
                     {"how", split.how},
                     {"removed", hash_of_removed(screen, split.parts.size())}};
  contents.metadata[kKey] = json.dump();
  add_checksum(contents);
  write_safetensors(file_of(run), contents);
}

bool keeps_split(const Run& run) { return fs::exists(file_of(run)); }

std::optional<Split> kept_split(const Run& run, const Screen& screen) {
  if (!keeps_split(run)) return {};
  const Kept kept = read_kept(run);
  const uint64_t count = kept.split.parts.size();
  if (screen.samples().size() < count || hash_of_removed(screen, count) != kept.removed) return {};
  return kept.split;
}

Split over_all_samples(Split split, const Screen& screen) {
  const auto parts = split.parts.as<uint8_t>();
  std::vector<uint8_t> all(parts.begin(), parts.end());
  all.resize(screen.samples().size(), uint8_t(Part::unused));
  split.parts = Array::from(std::move(all));
  return split;
}

std::string how_made(const Split& split) {
  if (!split.how.is_object() || !split.how.contains("command")) return split.how.dump();
  return "`" + split.how.at("command").get<std::string>() + "`";
}

uint64_t count_moved(const Split& then, const Split& now) {
  const auto before = then.parts.as<uint8_t>(), after = now.parts.as<uint8_t>();
  LACUNA_ASSERT(before.size() <= after.size());
  uint64_t moved = 0;
  for (uint64_t s = 0; s < before.size(); ++s) moved += before[s] != after[s];
  return moved;
}

void check_kept_split(const Run& run, const Screen& screen, const Split& now) {
  if (!keeps_split(run)) return;
  const std::optional<Split> then = kept_split(run, screen);
  if (!then)
    throw Error(
        "{} does not begin with the samples that {} was begun with, so what it holds out may have "
        "been trained on; name the right one with --set screen=DIRECTORY, or train anew with "
        "another --out",
        screen.path().string(), run.path().string());
  const uint64_t moved = count_moved(*then, now);
  if (moved == 0) return;
  throw Error(
      "split '{}' of {} is not the one that {} was begun with: {} of {} samples are in another "
      "part, "
      "so what was trained on would be held out; make it as it was ({}), or train anew with "
      "another "
      "--out",
      now.name, screen.path().string(), run.path().string(), with_commas(moved),
      with_commas(then->parts.size()), how_made(*then));
}

}  // namespace lacuna
