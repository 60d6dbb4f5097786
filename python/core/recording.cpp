// Recording: open, look at, write, split.
#include "lacuna/recording/recording.h"

#include "core.h"
#include "lacuna/core/error.h"
#include "lacuna/recording/recording_summary.h"
#include "lacuna/recording/recording_writer.h"
#include "lacuna/recording/trial_split.h"

namespace lacuna::python {
namespace {

using Rows = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// (name, role, dtype, shape, is packed, is in place, file)
nb::tuple field_of(const Field& field) {
  return nb::make_tuple(field.name, std::string(name(field.role)), std::string(name(field.dtype)),
                        field.shape, field.packed, field.place.in_place, field.place.file);
}

// [(name, subject, rate, units, [(segment, frames, [field])])]
nb::list sessions_of(const Recording& recording) {
  nb::list all;
  for (const Session& session : recording.sessions()) {
    nb::list segments;
    for (const Segment& segment : session.segments) {
      nb::list fields;
      for (const Field& field : segment.fields) fields.append(field_of(field));
      segments.append(nb::make_tuple(segment.name, segment.frames, fields));
    }
    all.append(
        nb::make_tuple(session.name, session.subject, session.rate, session.units, segments));
  }
  return all;
}

// A field's rows as they are stored, without a copy.
nb::object map_field(const Recording& recording, const std::string& session,
                     const std::string& segment, const std::string& field) {
  return numpy_view(recording.session(session).segment(segment).field(field).map());
}

// (parts by (session, segment), how)
nb::tuple split_of(const Recording& recording, const std::string& name) {
  const RecordingSplit& split = recording.split(name);
  const nb::object parts = numpy_view(split.parts);
  nb::dict by_segment;
  for (const RecordingSplit::Covered& one : split.segments)
    by_segment[nb::make_tuple(one.session, one.segment)] =
        parts[nb::slice(nb::int_(one.first), nb::int_(one.first + one.frames), nb::none())];
  return nb::make_tuple(by_segment, to_python(split.how));
}

// fractions by whole trials, or the lists of a file.
void make_recording_split(const fs::path& path, const std::string& name,
                          const std::array<double, 3>& fractions, uint64_t seed,
                          const std::string& repeats, const std::string& repeated,
                          const std::optional<fs::path>& file) {
  const nb::gil_scoped_release release;
  const Recording recording = Recording::open(path);
  TrialSplitOptions options = {
      .fractions = fractions, .seed = seed, .repeats = repeat_scope_from_name(repeats)};
  if (!repeated.empty()) options.repeated = part_from_name(repeated);
  add_split(path, file ? recording_split_from_json(recording, name, *file)
                       : draw_trial_split(recording, name, options));
}

// Sessions one after another, each with its segments and their fields; commit() ends it.
class RecordingFront {
 public:
  RecordingFront(const fs::path& path, bool add)
      : writer_(path, {.add = add}, {{"command", "lacuna.Recording.write"}}) {}

  void begin_session(const std::string& name, const std::string& subject, double rate,
                     const std::vector<std::string>& units) {
    writer_.begin_session({.name = name, .subject = subject, .rate = rate, .units = units});
  }
  void begin_segment(const std::string& name) { writer_.begin_segment(name); }
  // row_shape: of a row as values; packed rows come as bits.
  void begin_field(const std::string& name, const std::string& role, const std::string& dtype,
                   const std::vector<uint64_t>& row_shape, bool packed, uint64_t rows) {
    writer_.begin_field({.name = name,
                         .role = field_role_from_name(role),
                         .dtype = dtype_from_name(dtype),
                         .row_shape = Shape(row_shape.begin(), row_shape.end()),
                         .packed = packed,
                         .rows = rows});
  }
  void append(const Rows& rows) {
    const auto* bytes = static_cast<const std::byte*>(rows.data());
    const nb::gil_scoped_release release;
    writer_.append({bytes, rows.nbytes()});
  }
  void end_field() { writer_.end_field(); }
  void commit(const nb::object& settings) {
    const Json made_by = {{"command", "lacuna.Recording.write"},
                          {"settings", from_python(settings)},
                          {"sources", Json::array()}};
    const nb::gil_scoped_release release;
    writer_.commit(made_by);
  }

 private:
  RecordingWriter writer_;
};

nb::object summary_of(const Recording& recording, const nb::object& progress) {
  Json json;
  run_long(progress, [&](Progress&) { json = to_json(summarise(recording)); });
  json["path"] = recording.path().string();
  json["splits"] = Json::array();
  for (const RecordingSplit& split : recording.splits())
    json["splits"].push_back({{"name", split.name}, {"how", split.how}});
  return to_python(json);
}

}  // namespace

void bind_recording(nb::module_& module) {
  nb::class_<Recording>(module, "Recording")
      .def_static("open", &Recording::open, nb::arg("path"))
      .def_prop_ro("path", [](const Recording& r) { return r.path(); })
      .def_prop_ro("fingerprint", [](const Recording& r) { return r.fingerprint().value(); })
      .def_prop_ro("bytes", &Recording::bytes)
      .def_prop_ro("sessions", &sessions_of)
      .def_prop_ro("splits",
                   [](const Recording& r) {
                     std::vector<std::string> names;
                     for (const RecordingSplit& split : r.splits()) names.push_back(split.name);
                     return names;
                   })
      .def("split", &split_of, nb::arg("name"))
      .def("field", &map_field, nb::arg("session"), nb::arg("segment"), nb::arg("field"))
      .def(
          "check",
          [](const Recording& r, const nb::object& progress) {
            run_long(progress, [&](Progress& p) { r.check(p); });
          },
          nb::arg("progress").none())
      .def(
          "truth",
          [](const Recording& r, const std::string& session, const std::string& name) {
            const std::optional<Array> found = r.truth(session, name);
            return found ? numpy_view(*found) : nb::none();
          },
          nb::arg("session"), nb::arg("name"))
      .def("summary", &summary_of, nb::arg("progress").none());
  nb::class_<RecordingFront>(module, "RecordingWriter")
      .def(nb::init<const fs::path&, bool>(), nb::arg("path"), nb::arg("add"))
      .def("begin_session", &RecordingFront::begin_session, nb::arg("name"), nb::arg("subject"),
           nb::arg("rate"), nb::arg("units"))
      .def("begin_segment", &RecordingFront::begin_segment, nb::arg("name"))
      .def("begin_field", &RecordingFront::begin_field, nb::arg("name"), nb::arg("role"),
           nb::arg("dtype"), nb::arg("row_shape"), nb::arg("packed"), nb::arg("rows"))
      .def("append", &RecordingFront::append, nb::arg("rows"))
      .def("end_field", &RecordingFront::end_field)
      .def("commit", &RecordingFront::commit, nb::arg("settings"));
  module.def("make_recording_split", &make_recording_split, nb::arg("path"), nb::arg("name"),
             nb::arg("fractions"), nb::arg("seed"), nb::arg("repeats"), nb::arg("repeated"),
             nb::arg("file").none());
  module.def("remove_recording_split", [](const fs::path& path, const std::string& name) {
    remove_recording_split(path, name);
  });
  module.def("format_of", &Directory::format_of, nb::arg("path"));
}

}  // namespace lacuna::python
