#include "lacuna/recording/recording.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/text.h"
#include "lacuna/recording/field_json.h"

namespace lacuna {
namespace {

constexpr std::array<std::string_view, 8> kRoles = {
    "stimulus", "counts", "behaviour", "validity", "trial", "stimulus_id", "time", "other"};
constexpr uint64_t kPieceBytes = 1 << 24;

template <class Named>
const Named& find_by_name(std::string_view where, std::string_view kind, std::string_view name,
                          const std::vector<Named>& things) {
  std::vector<std::string> names;
  for (const auto& thing : things) {
    if (thing.name == name) return thing;
    names.push_back(thing.name);
  }
  throw Error("{}: no {} '{}'; there is {}", where, kind, name,
              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void check_in_place_size(const Field& field) {
  std::error_code error;
  const uint64_t found = fs::file_size(field.place.file, error);
  if (error == std::errc::no_such_file_or_directory)
    throw Error(
        "{}: missing; field '{}' was imported in place: restore it, or import it again without "
        "--in-place",
        field.place.file.string(), field.name);
  if (error)
    throw Error("{}: cannot read its size: {}", field.place.file.string(), error.message());
  if (found < field.place.offset + field.bytes())
    throw Error(
        "{}: truncated: field '{}' needs {} bytes from byte {} on, but the file ends at {}; "
        "restore "
        "it, or import it again",
        field.place.file.string(), field.name, field.bytes(), field.place.offset, found);
}

// A field's own file holds exactly its rows: the manifest's two statements must agree.
void check_own_size(const Directory& directory, const std::string& file, const Field& field) {
  const auto entry = directory.files().find(file);
  if (entry == directory.files().end())
    throw Error("manifest.json names no file {} for field '{}'", file, field.name);
  if (entry->second.bytes != field.place.offset + field.bytes())
    throw Error("{} has {} bytes, but field '{}' needs {}; make it again", file,
                entry->second.bytes, field.name, field.place.offset + field.bytes());
}

void check_field_files(const Directory& directory, const Session& session, const Segment& segment,
                       const Field& field) {
  if (field.place.in_place)
    check_in_place_size(field);
  else
    check_own_size(directory, field_file(session.name, segment.name, field.name), field);
  for (const std::string_view suffix : {".check", ".nan"}) {
    const std::string file = field_file(session.name, segment.name, field.name, suffix);
    if (!directory.has(file) && (suffix == ".check" || field.nan_rows > 0))
      throw Error("manifest.json names no file {} for field '{}'", file, field.name);
  }
}

std::string split_array_file(const std::string& name) { return "splits/" + name + ".npy"; }

Json covered_to_json(const RecordingSplit& split) {
  Json covered = Json::array();
  for (const auto& one : split.segments)
    covered.push_back({{"session", one.session}, {"segment", one.segment}, {"frames", one.frames}});
  return covered;
}

RecordingSplit read_split(const Directory& directory, const Json& json) {
  RecordingSplit split;
  split.name = json.at("name").get<std::string>();
  split.parts = directory.array(split_array_file(split.name));
  split.how = json.at("how");
  uint64_t first = 0;
  for (const Json& one : json.at("segments")) {
    split.segments.push_back({one.at("session").get<std::string>(),
                              one.at("segment").get<std::string>(), first,
                              one.at("frames").get<uint64_t>()});
    first += split.segments.back().frames;
  }
  if (split.parts.dtype() != DType::u8 || split.parts.shape() != Shape{first})
    throw Error("split '{}' is not u8 [{}]; take it away and draw it again", split.name, first);
  return split;
}

uint64_t hash_in_place(const Field& field, const std::function<void(uint64_t)>& advance) {
  const Array rows = field.map();
  Hasher hasher;
  for (uint64_t at = 0; at < rows.bytes().size(); at += kPieceBytes) {
    throw_if_stopped();
    const uint64_t size = std::min<uint64_t>(kPieceBytes, rows.bytes().size() - at);
    hasher.add(rows.bytes().subspan(at, size));
    advance(at + size);
  }
  return hasher.value();
}

uint64_t session_hash(const Session& session) {
  Hasher hasher;
  hasher.add(fmt::format("rate {}\n", session.rate));
  for (const auto& unit : session.units) hasher.add("unit " + unit + "\n");
  for (const Segment& segment : session.segments)
    for (const Field& field : segment.fields)
      hasher.add(fmt::format("{}/{} {} {}{} [{}] {}\n", segment.name, field.name, name(field.role),
                             name(field.dtype), field.packed ? " packed" : "",
                             fmt::join(field.shape, ", "), hex(field.xxh3)));
  return hasher.value();
}

template <class F>
void with_recording_path(const fs::path& path, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string_view words = error.what();
    if (words.starts_with("/") || words.starts_with(path.string())) throw;
    throw Error("{}: {}", path.string(), words);
  }
}

}  // namespace

std::string_view name(FieldRole role) { return kRoles.at(size_t(role)); }

FieldRole field_role_from_name(std::string_view name) {
  const auto at = std::find(kRoles.begin(), kRoles.end(), name);
  if (at == kRoles.end())
    throw Error("'{}' is no role of a field; there is {}", name, fmt::join(kRoles, ", "));
  return FieldRole(at - kRoles.begin());
}

uint64_t Field::columns() const {
  uint64_t product = 1;
  for (size_t d = 1; d < shape.size(); ++d) product *= shape[d];
  return product;
}

uint64_t Field::row_bytes() const {
  return packed ? (columns() + 7) / 8 : columns() * item_size(dtype);
}

Array Field::map() const {
  if (place.in_place) check_in_place_size(*this);
  const MappedFile mapped(place.file);
  if (mapped.bytes().size() < place.offset + bytes())
    throw Error("{}: truncated: {} bytes, {} expected; restore it or make it again",
                place.file.string(), mapped.bytes().size(), place.offset + bytes());
  return Array(dtype, packed ? Shape{rows(), row_bytes()} : shape,
               mapped.bytes().data() + place.offset, mapped.owner());
}

const Field* Segment::find(std::string_view name) const {
  const auto at = std::ranges::find(fields, name, &Field::name);
  return at == fields.end() ? nullptr : &*at;
}

const Field* Segment::find(FieldRole role) const {
  const auto at = std::ranges::find(fields, role, &Field::role);
  return at == fields.end() ? nullptr : &*at;
}

const Field& Segment::field(std::string_view name) const {
  return find_by_name("segment " + this->name, "field", name, fields);
}

const Segment& Session::segment(std::string_view name) const {
  return find_by_name("session " + this->name, "segment", name, segments);
}

uint64_t Session::frames() const {
  uint64_t total = 0;
  for (const Segment& segment : segments) total += segment.frames;
  return total;
}

std::span<const uint8_t> RecordingSplit::of(std::string_view session,
                                            std::string_view segment) const {
  for (const Covered& one : segments)
    if (one.session == session && one.segment == segment)
      return parts.as<uint8_t>().subspan(one.first, one.frames);
  return {};
}

DirectoryFormat Recording::format() {
  return {kFormat, kVersion, {"splits/*.npy", "truth/*.npy", "*/*/*.npy"}};
}

Recording Recording::open(const fs::path& path) {
  Recording recording;
  recording.directory_ = Directory::open(path, kFormat, kVersion);
  const Directory& directory = recording.directory_;
  auto contents = std::make_shared<Contents>();
  with_recording_path(path, [&] {
    read_manifest(path, [&] {
      std::set<std::string> seen;
      for (const Json& json : directory.manifest().at("sessions")) {
        Session session = session_from_json(json, path);
        if (!seen.insert(session.name).second)
          throw Error("two sessions are named '{}'; make it again", session.name);
        for (const Segment& segment : session.segments)
          for (const Field& field : segment.fields)
            check_field_files(directory, session, segment, field);
        contents->sessions.push_back(std::move(session));
      }
      for (const Json& json : directory.manifest().at("splits"))
        contents->splits.push_back(read_split(directory, json));
      contents->fingerprint = Fingerprint::from_json(directory.manifest().at("fingerprint"));
    });
    const auto found = fingerprint_of(contents->sessions);
    if (found.parts() != contents->fingerprint.parts())
      throw Error("the fingerprint in the manifest is not that of its sessions; make it again");
  });
  recording.contents_ = std::move(contents);
  return recording;
}

const Session& Recording::session(std::string_view name) const {
  return find_by_name(path().string(), "session", name, sessions());
}

const RecordingSplit& Recording::split(std::string_view name) const {
  const RecordingSplit& split = find_by_name(path().string(), "split", name, splits());
  const std::string file = split_array_file(split.name);
  if (hash_file(path() / file) != directory_.files().at(file).xxh3)
    throw Error("{}: its bytes have changed; restore it, or take the split away and draw it again",
                (path() / file).string());
  return split;
}

uint64_t Recording::bytes() const {
  uint64_t total = 0;
  for (const Session& session : sessions())
    for (const Segment& segment : session.segments)
      for (const Field& field : segment.fields) total += field.bytes();
  return total;
}

std::optional<Array> Recording::truth(std::string_view session, std::string_view name) const {
  const std::string file = truth_file(session, name);
  const auto entry = directory_.files().find(file);
  if (entry == directory_.files().end()) return std::nullopt;
  if (hash_file(path() / file) != entry->second.xxh3)
    throw Error("{}: its bytes have changed; restore it or make it again",
                (path() / file).string());
  return directory_.array(file);
}

void Recording::check(Progress& progress) const {
  directory_.check(progress);
  std::vector<const Field*> in_place;
  uint64_t total = 0, done = 0;
  for (const Session& session : sessions())
    for (const Segment& segment : session.segments)
      for (const Field& field : segment.fields)
        if (field.place.in_place) {
          in_place.push_back(&field);
          total += field.bytes();
        }
  progress.begin("checking fields in place", total, "bytes");
  for (const Field* field : in_place) {
    const uint64_t found =
        hash_in_place(*field, [&](uint64_t read) { progress.advance(done + read); });
    if (found != field->xxh3)
      throw Error(
          "{}: field '{}', imported in place, has changed (checksum {}, {} expected); restore the "
          "file, or import it again",
          field->place.file.string(), field->name, hex(found), hex(field->xxh3));
    done += field->bytes();
  }
  progress.end();
}

Fingerprint fingerprint_of(const std::vector<Session>& sessions) {
  Fingerprint fingerprint;
  for (const Session& session : sessions)
    fingerprint.add("session " + session.name, session_hash(session));
  return fingerprint;
}

void add_split(const fs::path& path, const RecordingSplit& split) {
  const Recording recording = Recording::open(path);
  check_part_name("split", split.name);
  for (const auto& there : recording.splits())
    if (there.name == split.name)
      throw Error(
          "{}: has a split '{}' already; choose another name, or take it away with `lacuna split "
          "{} --name {} --remove`",
          path.string(), split.name, shell_word(path.string()), shell_word(split.name));
  for (const auto& one : split.segments)
    LACUNA_ASSERT(recording.session(one.session).segment(one.segment).frames == one.frames);
  add_array_to(path, split_array_file(split.name), split.parts, [&](Json& manifest) {
    manifest.at("splits").push_back(
        {{"name", split.name}, {"segments", covered_to_json(split)}, {"how", split.how}});
  });
}

RecordingSplit remove_recording_split(const fs::path& path, const std::string& name) {
  const Recording recording = Recording::open(path);  // a damaged split can be taken away, too
  RecordingSplit split = find_by_name(path.string(), "split", name, recording.splits());
  const auto parts = split.parts.as<uint8_t>();
  split.parts = Array::from(std::vector<uint8_t>(parts.begin(), parts.end()));  // its file goes
  remove_file_from(path, split_array_file(name), [&](Json& manifest) {
    std::erase_if(manifest.at("splits").get_ref<Json::array_t&>(),
                  [&](const Json& one) { return one.at("name") == name; });
  });
  return split;
}

}  // namespace lacuna
