#include "lacuna/run/recording/session_start.h"

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/seal.h"
#include "lacuna/recording/transforms/statistic_memory.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.session-start";

void add_split(const RecordingSplit& split, const std::string& session, Hasher& hasher) {
  for (const RecordingSplit::Covered& covered : split.segments)
    if (session.empty() || covered.session == session)
      hasher.add(
          fmt::format("{}/{} {}\n", covered.session, covered.segment,
                      hex(hash64(std::as_bytes(split.of(covered.session, covered.segment))))));
}

}  // namespace

uint64_t session_start_key(const PreparedRecording& prepared, const Config& config,
                           const Session& session) {
  const Recording& recording = prepared.recording;
  const FingerprintPart* part = recording.fingerprint().find("session " + session.name);
  LACUNA_ASSERT(part);
  Json windows = to_json(prepared.windows);
  windows.erase("sessions");  // which others there are does not matter
  Hasher hasher;
  hasher.add(fmt::format("version {}, transforms {}\n", kSessionStartVersion, kTransformsVersion));
  hasher.add(fmt::format("session {} {}\n", session.name, hex(part->hash)));
  hasher.add(fmt::format("windows {}\nframes {}\n", windows.dump(), prepared.frame_ops.dump()));
  const bool is_rounded =
      config.recording.rung.form == Form::bf16 || config.train.precision == "bf16";
  hasher.add(fmt::format("bf16 {}\n", is_rounded));
  const RecordingSplit& split = recording.split(config.split);
  add_split(split, session.name, hasher);
  if (prepared.windows.transforms.empty()) return hasher.value();
  // Statistics of inputs may be those of all sessions, and of any of the splits.
  hasher.add(fmt::format("recording {}\n", hex(recording.fingerprint().value())));
  for (const RecordingSplit& one : recording.splits())
    add_split(recording.split(one.name), {}, hasher);
  return hasher.value();
}

std::optional<SessionStart> recall_session_start(const fs::path& recording, uint64_t key) {
  const fs::path file = statistic_file(recording, key);
  if (!fs::exists(file)) return {};
  try {
    const SealedJson sealed = read_sealed_json(file);
    if (!sealed.is_checked || sealed.json.at("format") != kFormat) return {};
    const auto numbers = [&](const char* name) {
      return sealed.json.at(name).get<std::vector<double>>();
    };
    return SessionStart{{numbers("mean_counts"), numbers("input_mean"), numbers("input_sd")},
                        sealed.json.at("places").get<std::vector<float>>()};
  } catch (const Error&) {
    return {};  // damaged: it is found and written again
  } catch (const Json::exception&) {
    return {};
  }
}

void remember_session_start(const fs::path& recording, uint64_t key, const SessionStart& start) {
  const fs::path file = statistic_file(recording, key);
  std::error_code error;
  fs::create_directory(file.parent_path(), error);
  if (error) return;
  try {
    write_sealed_json(file, {{"format", kFormat},
                             {"mean_counts", start.scale.mean_counts},
                             {"input_mean", start.scale.input_mean},
                             {"input_sd", start.scale.input_sd},
                             {"places", start.places}});
  } catch (const Error&) {
    // Nothing is lost but the time of the next start.
  }
}

}  // namespace lacuna
