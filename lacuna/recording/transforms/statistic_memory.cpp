#include "lacuna/recording/transforms/statistic_memory.h"

#include <algorithm>
#include <bit>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"

namespace lacuna {
namespace {

// As bits: a number comes back as it was.
Json to_bits(const std::vector<float>& values) {
  Json bits = Json::array();
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}
std::vector<float> from_bits(const Json& bits) {
  std::vector<float> values;
  for (const Json& one : bits) values.push_back(std::bit_cast<float>(one.get<uint32_t>()));
  return values;
}

// A field's ops up to and with number `last`, and all that its sources are made by.
void add_chain(const std::vector<TransformedField>& fields, const TransformedField& field,
               size_t last, Hasher& hasher) {
  hasher.add(fmt::format("from {} across {}\n", fmt::join(field.from, ","), field.across_trials));
  for (size_t i = 0; i < field.ops.size() && i <= last; ++i) {
    hasher.add(fmt::format("{} {}\n", field.ops[i].first, field.ops[i].second.dump()));
    add_python_file(field.ops[i].first, field.ops[i].second, hasher);
  }
  for (const std::string& source : field.from) {
    const TransformedField* made = nullptr;
    for (const TransformedField& above : fields) {
      if (&above == &field) break;
      if (above.name == source) made = &above;
    }
    if (made) add_chain(fields, *made, made->ops.size(), hasher);
  }
}

}  // namespace

bool add_statistic_rows(const Recording& recording, const Session& session, const Json& op,
                        Hasher& hasher) {
  const bool is_over_all = op.value("over", "segment") == "recording";
  if (is_over_all) hasher.add(fmt::format("recording {}\n", hex(recording.fingerprint().value())));
  if (op.value("rows", "train") == "all") return true;
  const std::string name = op.value("split", "");
  if (name.empty() && recording.splits().size() != 1) return false;
  const RecordingSplit& split = recording.split(name.empty() ? recording.splits()[0].name : name);
  for (const RecordingSplit::Covered& covered : split.segments)
    if (is_over_all || covered.session == session.name)
      hasher.add(
          fmt::format("{}/{} {}\n", covered.session, covered.segment,
                      hex(hash64(std::as_bytes(split.of(covered.session, covered.segment))))));
  return true;
}

void add_python_file(const std::string& op, const Json& settings, Hasher& hasher) {
  if (op != kPythonOp) return;
  const auto call = settings.get<std::string>();
  const fs::path file = call.substr(0, call.rfind(':'));
  if (fs::is_regular_file(file)) hasher.add(fmt::format("python {}\n", hex(hash_file(file))));
}

std::optional<uint64_t> statistic_key(const Recording& recording, const Session& session,
                                      const Segment& segment,
                                      const std::vector<TransformedField>& fields,
                                      const TransformedField& field, size_t op) {
  Hasher hasher;
  const FingerprintPart* part = recording.fingerprint().find("session " + session.name);
  LACUNA_ASSERT(part);
  const Json& settings = field.ops[op].second;
  const std::string over = settings.value("over", "segment");
  if (over != "recording") hasher.add(fmt::format("session {}\n", hex(part->hash)));
  if (over == "segment") hasher.add(fmt::format("segment {}\n", segment.name));
  hasher.add(fmt::format("version {}\n", kTransformsVersion));
  add_chain(fields, field, op, hasher);
  if (!add_statistic_rows(recording, session, settings, hasher)) return {};
  return hasher.value();
}

fs::path statistic_file(const fs::path& recording, uint64_t key) {
  return recording / "statistics" / (hex(key) + ".json");
}

std::set<fs::path> statistic_files(const Transforms& transforms, const Recording& recording) {
  std::set<fs::path> files;
  for (const TransformedField& field : transforms.fields())
    for (size_t i = 0; i < field.ops.size(); ++i) {
      const auto& [name, settings] = field.ops[i];
      if (name == kPythonOp || make_transform_op(name, settings)->kind() != OpKind::whole_segment)
        continue;
      for (const Session& session : recording.sessions())
        for (const Segment& segment : session.segments)
          if (const auto key =
                  statistic_key(recording, session, segment, transforms.fields(), field, i))
            files.insert(statistic_file(recording.path(), *key));
    }
  return files;
}

std::optional<OpStatistic> recall_statistic(const fs::path& recording, uint64_t key) {
  const fs::path file = statistic_file(recording, key);
  if (!fs::exists(file)) return {};
  try {
    const SealedJson sealed = read_sealed_json(file);
    if (!sealed.is_checked || sealed.json.at("format") != kStatisticFormat) return {};
    return OpStatistic{from_bits(sealed.json.at("shift")), from_bits(sealed.json.at("divide"))};
  } catch (const Error&) {
    return {};  // damaged: it is learned and written again
  } catch (const Json::exception&) {
    return {};
  }
}

void remember_statistic(const fs::path& recording, uint64_t key, const OpStatistic& statistic) {
  const fs::path file = statistic_file(recording, key);
  std::error_code error;
  fs::create_directory(file.parent_path(), error);
  if (error) return;
  try {
    write_sealed_json(file, {{"format", kStatisticFormat},
                             {"shift", to_bits(statistic.shift)},
                             {"divide", to_bits(statistic.divide)}});
  } catch (const Error&) {
    // Nothing is lost but the time of the next start.
  }
}

}  // namespace lacuna
