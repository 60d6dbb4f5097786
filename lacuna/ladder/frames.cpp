#include "lacuna/ladder/frames.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/text.h"
#include "lacuna/ladder/frame_holder.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/ladder/frame_view.h"
#include "lacuna/ladder/guards.h"
#include "lacuna/ladder/what_fits.h"

namespace lacuna {

struct Frames::State {
  Rung rung;
  DType moved = DType::u8;
  Shape shape;  // [Y, X]
  uint64_t pixels = 0;
  std::shared_ptr<const DirectoryLock> lock;  // of the store; null: the recording's own frames
  std::string note;
  struct OfSession {
    std::unique_ptr<FrameHolder> holder;  // null: not chosen
    FrameCast cast;
    std::vector<uint64_t> first;   // [segments with frames] resident rows before it
    std::vector<uint32_t> places;  // [segments] which of those with frames it is

    uint32_t place(uint32_t segment) const {
      LACUNA_ASSERT(segment < places.size() && places[segment] < first.size());
      return places[segment];
    }
  };
  std::vector<OfSession> sessions;  // in the recording's order
  uint64_t rows = 0;

  const OfSession& of(uint32_t session) const {
    LACUNA_ASSERT(session < sessions.size() && sessions[session].holder);
    return sessions[session];
  }
};

namespace {

// What is known of one session before anything is loaded.
struct PlannedSession {
  size_t number = 0;
  Rung rung;
  SegmentFields fields;                 // as they lie on disk, of segments with frames
  std::vector<uint32_t> segments;       // their numbers
  std::optional<StoredSession> chunks;  // of chunk rungs
  DType held = DType::u8;
  std::shared_ptr<const HeldPlan> memory;  // of rungs in memory
  ChunkBytes packed;                       // of ram:chunks

  uint64_t bytes_in_memory() const { return memory ? bytes_of(*memory) : packed.all; }
};

std::string where(const Session& session, const Segment& segment) {
  return fmt::format("{}/{}", session.name, segment.name);
}

void check_rung(const Session& session, const Segment& segment, const Field& field, Rung rung) {
  const bool is_known = field.dtype == DType::u8 || field.dtype == DType::f32 ||
                        (field.dtype == DType::bf16 && rung.form == Form::bf16);
  if (!is_known)
    throw Error("field '{}' of {} is {}, and frames are u8 or f32; import it again with --narrow",
                field.name, where(session, segment), name(field.dtype));
  if ((is_bytes(rung) || is_resident(rung)) && field.dtype != DType::u8)
    throw Error(
        "rung {} holds a byte a pixel, but field '{}' of {} is {}; take a rung of f32 or bf16, or "
        "import it again with --narrow",
        name(rung), field.name, where(session, segment), name(field.dtype));
}

// Sessions of tiered that are to lie in memory: those drawn most a byte, within the budget.
std::vector<bool> choose_hot(const std::vector<uint64_t>& bytes, const std::vector<double>& shares,
                             std::vector<bool> hot, uint64_t budget) {
  uint64_t used = 0;
  for (size_t s = 0; s < bytes.size(); ++s)
    if (hot[s]) used += bytes[s];
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return shares[a] * double(bytes[b]) > shares[b] * double(bytes[a]);
  });
  for (const size_t s : order) {
    if (hot[s] || bytes[s] == 0 || used + bytes[s] > budget) continue;
    hot[s] = true;
    used += bytes[s];
  }
  return hot;
}

class FramesOpener {
 public:
  FramesOpener(const Recording& recording, const FramesOptions& options)
      : recording_(recording), options_(options), rung_(options.rung) {
    if (rung_.expanded_at == Place::worker || !is_bytes(rung_))
      LACUNA_ASSERT(options.cast == DType::f32 || options.cast == DType::bf16);
    if (!options.store.empty() || needs_store(rung_)) open_store();
  }

  std::vector<PlannedSession> plan() {
    std::vector<PlannedSession> planned;
    for (size_t s = 0; s < recording_.sessions().size(); ++s)
      if (is_chosen(recording_.sessions()[s].name)) planned.push_back(plan_session(s));
    for (const std::string& name : options_.sessions) (void)recording_.session(name);
    if (planned.empty()) throw Error("{} has no session to read", recording_.path().string());
    if (rung_.place == Place::tiered) choose_places(planned);
    for (PlannedSession& session : planned) {
      session.held = held_dtype(session.rung);
      if (session.rung.place == Place::ram && session.rung.form != Form::chunks)
        session.memory =
            plan_held(session.fields, session.held, recording_.sessions()[session.number].name);
      if (session.rung.place == Place::ram && session.chunks)
        session.packed = chunk_bytes(*session.chunks);
    }
    return planned;
  }

  std::shared_ptr<const DirectoryLock> lock() const { return store_ ? store_->lock() : nullptr; }
  const std::string& note() const { return note_; }

 private:
  bool is_chosen(const std::string& name) const {
    return options_.sessions.empty() ||
           std::ranges::find(options_.sessions, name) != options_.sessions.end();
  }

  void open_store() {
    // A recording that holds floats already needs no other copy of them.
    if (options_.store.empty() && holds(held_dtype(rung_)) && rung_.form != Form::chunks) return;
    const bool is_u8 = rung_.place == Place::tiered || is_resident(rung_) || rung_.form == Form::u8;
    if (is_u8)
      throw Error("rung {} reads the recording itself: take the key `store` out ({})", name(rung_),
                  options_.store.string());
    if (options_.store.empty()) {
      FrameStoreSettings settings;
      settings.form = rung_.form;
      settings.field = options_.field;
      throw Error("rung {} needs a store (key `store`); `{}` makes one", name(rung_),
                  prepare_frames_command(recording_.path(), settings, "STORE"));
    }
    store_ = FrameStore::open(options_.store, recording_, rung_.form, options_.field);
  }

  bool holds(DType dtype) const {
    for (const Session& session : recording_.sessions())
      for (const Segment& segment : session.segments)
        if (const Field* field = segment.find(options_.field); field && field->dtype != dtype)
          return false;
    return dtype != DType::u8;
  }

  PlannedSession plan_session(size_t number) const {
    const Session& session = recording_.sessions()[number];
    PlannedSession planned = {.number = number,
                              .rung = rung_,
                              .fields = {},
                              .segments = {},
                              .chunks = {},
                              .held = DType::u8,
                              .memory = {},
                              .packed = {}};
    if (store_) {
      const StoredSession& stored = store_->session(session.name);
      planned.fields = stored.fields;
      if (rung_.form == Form::chunks) planned.chunks = stored;
    } else {
      for (const Segment& segment : session.segments)
        if (const Field* field = segment.find(options_.field)) planned.fields.push_back(*field);
    }
    if (planned.fields.empty())
      throw Error("session '{}' has no field '{}', whose frames are to be read", session.name,
                  options_.field);
    for (uint32_t g = 0; g < session.segments.size(); ++g)  // as windows leave others out
      if (session.segments[g].find(options_.field)) planned.segments.push_back(g);
    LACUNA_ASSERT(planned.segments.size() == planned.fields.size());
    leave_out_segments(session, planned);
    for (size_t i = 0; i < planned.fields.size(); ++i)
      check_rung(session, session.segments[planned.segments[i]], planned.fields[i], rung_);
    return planned;
  }

  // What is not chosen is neither held nor counted.
  void leave_out_segments(const Session& session, PlannedSession& planned) const {
    if (options_.segments.empty()) return;
    PlannedSession kept = planned;
    kept.fields.clear();
    kept.segments.clear();
    if (kept.chunks) kept.chunks->chunks.clear();
    std::string names;
    for (size_t i = 0; i < planned.fields.size(); ++i) {
      const std::string& name = session.segments[planned.segments[i]].name;
      if (std::ranges::find(options_.segments, name) == options_.segments.end()) continue;
      kept.fields.push_back(planned.fields[i]);
      kept.segments.push_back(planned.segments[i]);
      if (kept.chunks) kept.chunks->chunks.push_back(planned.chunks->chunks[i]);
      names += "/" + name;
    }
    if (kept.fields.size() == planned.fields.size()) return;
    if (kept.fields.empty())
      throw Error("session '{}' has none of the segments {}, whose frames are to be read",
                  session.name, fmt::join(options_.segments, ", "));
    if (kept.chunks) {  // other bytes: a copy in memory is not the one of all segments
      kept.chunks->fields = kept.fields;
      kept.chunks->xxh3 = hash64(hex(kept.chunks->xxh3) + names);
    }
    planned = std::move(kept);
  }

  void choose_places(std::vector<PlannedSession>& planned) {
    if (options_.hot_bytes == 0)
      throw Error(
          "rung tiered needs to know how many bytes it may hold in memory: `tiered.hot` of a "
          "config, `hot` of lacuna.Loader");
    std::vector<uint64_t> bytes;
    std::vector<double> shares;
    std::vector<bool> hot(planned.size());
    for (size_t i = 0; i < planned.size(); ++i) {
      uint64_t all = 0;
      for (const Field& field : planned[i].fields) all += field.bytes();
      bytes.push_back(all);
      shares.push_back(options_.shares.empty() ? double(all)
                                               : options_.shares.at(planned[i].number));
      const auto named = options_.rungs.find(recording_.sessions()[planned[i].number].name);
      if (named == options_.rungs.end()) continue;
      check_named(named->first, named->second);
      hot[i] = named->second.place == Place::ram;
      if (!hot[i]) shares.back() = -1, bytes.back() = 0;  // it is not to be chosen
    }
    for (const auto& [name, rung] : options_.rungs) (void)recording_.session(name);
    uint64_t named_bytes = 0;
    for (size_t i = 0; i < planned.size(); ++i) named_bytes += hot[i] ? bytes[i] : 0;
    if (named_bytes > options_.hot_bytes)
      throw Error("the sessions named for ram:u8 take {}, but tiered may hold {}",
                  format_bytes(named_bytes), format_bytes(options_.hot_bytes));
    hot = choose_hot(bytes, shares, hot, options_.hot_bytes);
    note_ = nothing_hot(bytes, hot);
    for (size_t i = 0; i < planned.size(); ++i)
      planned[i].rung = {hot[i] ? Place::ram : Place::disk, Form::u8, rung_.expanded_at};
  }

  // bytes: [sessions], 0 where one is to lie on the disk.
  std::string nothing_hot(std::vector<uint64_t> bytes, const std::vector<bool>& hot) const {
    std::erase(bytes, 0);
    if (bytes.empty() || std::ranges::find(hot, true) != hot.end()) return {};
    return fmt::format(
        "tiered.hot is {}, and the smallest session takes {}: none lies in memory, all are read as "
        "disk:u8",
        format_bytes(options_.hot_bytes), format_bytes(std::ranges::min(bytes)));
  }

  static void check_named(const std::string& session, Rung rung) {
    if ((rung.place != Place::ram && rung.place != Place::disk) || rung.form != Form::u8)
      throw Error("session {} is to lie on rung {}; tiered knows ram:u8 and disk:u8", session,
                  name(rung));
  }

  const Recording& recording_;
  const FramesOptions& options_;
  Rung rung_;
  std::optional<FrameStore> store_;
  std::string note_;
};

// What will be loaded by this process, and whether there is room for it.
void check_room(const Recording& recording, const FramesOptions& options,
                const std::vector<PlannedSession>& planned) {
  uint64_t needed = options.beside_bytes;
  for (const PlannedSession& session : planned) {
    if (session.memory && !is_held_already(*session.memory)) needed += bytes_of(*session.memory);
    needed += session.packed.to_load;
  }
  if (memory_room(needed).fits()) return;
  const Room beside = memory_room(options.beside_bytes);
  check_memory_room(needed, fmt::format("rung {}", name(options.rung)),
                    beside.fits() ? what_fits(recording, {.rung = options.rung,
                                                          .field = options.field,
                                                          .sessions = options.sessions,
                                                          .room = beside.left()})
                                  : fmt::format("{} of it are not for frames but for batches and "
                                                "what is kept beside them: a smaller train.batch, "
                                                "fewer train.threads or ranks take less",
                                                format_bytes(options.beside_bytes)));
}

}  // namespace

std::string precision_lost(const Recording& recording, const std::string& field, Rung rung) {
  if (held_dtype(rung) != DType::bf16) return {};
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments)
      if (const Field* frames = segment.find(field); frames && frames->dtype == DType::f32)
        return fmt::format(
            "rung {} rounds field '{}', which is f32, to bf16: 3 digits of each value stay; a rung "
            "of f32 keeps them all. Counts and behaviour stay as recorded",
            name(rung), field);
  return fmt::format("rung {} rounds frames to bf16; all 256 grey levels stay distinct",
                     name(rung));
}

Frames::Frames(const Recording& recording, const FramesOptions& options, Progress& progress) {
  const auto state = std::make_shared<State>();
  state->rung = with_expansion(options.rung, false);
  state->moved = moved_dtype(state->rung, options.cast);
  FramesOptions chosen = options;
  chosen.rung = state->rung;
  FramesOpener opener(recording, chosen);
  const std::vector<PlannedSession> planned = opener.plan();
  state->lock = opener.lock();
  state->note = opener.note();
  check_room(recording, chosen, planned);

  state->sessions.resize(recording.sessions().size());
  uint64_t to_load = 0, loaded = 0;
  for (const PlannedSession& session : planned) to_load += session.bytes_in_memory();
  if (to_load > 0) progress.begin("loading frames", to_load, "bytes");
  for (const PlannedSession& session : planned) {
    State::OfSession& of = state->sessions[session.number];
    of.places.assign(recording.sessions()[session.number].segments.size(), UINT32_MAX);
    for (uint32_t i = 0; i < session.segments.size(); ++i) of.places[session.segments[i]] = i;
    for (size_t i = 0; i < session.fields.size(); ++i) {
      const Field& field = session.fields[i];
      const Shape shape(field.shape.begin() + 1, field.shape.end());
      if (state->shape.empty()) state->shape = shape;
      if (shape != state->shape)
        throw Error("frames of {} are [{}], those before [{}]; one batch needs one size",
                    where(recording.sessions()[session.number],
                          recording.sessions()[session.number].segments[session.segments[i]]),
                    fmt::join(shape, ", "), fmt::join(state->shape, ", "));
      of.first.push_back(state->rows);
      state->rows += field.rows();
    }
    const FrameView view(chosen.view, state->shape, session.held);
    state->pixels = view.pixels();
    of.cast = {session.held, is_resident(state->rung) ? DType::u8 : state->moved, state->pixels};
    if (session.memory) {
      of.holder = hold_in_memory(session.memory, progress, loaded);
    } else if (session.chunks) {
      of.holder = hold_chunks(*session.chunks, session.rung.place == Place::ram, progress, loaded);
    } else {
      of.holder = hold_on_disk(session.fields);
    }
    if (!view.is_whole()) of.holder = view.of(std::move(of.holder));
    loaded += session.bytes_in_memory();
  }
  if (to_load > 0) progress.end();
  state->shape = FrameView(chosen.view, state->shape, planned[0].held).frame_shape();
  state_ = state;
}

Rung Frames::rung() const { return state_->rung; }
DType Frames::dtype() const { return state_->moved; }
const Shape& Frames::frame_shape() const { return state_->shape; }
uint64_t Frames::frame_bytes() const { return state_->pixels * item_size(state_->moved); }

const std::string& Frames::note() const { return state_->note; }

uint64_t Frames::held_bytes() const {
  uint64_t bytes = 0;
  for (const auto& session : state_->sessions)
    if (session.holder) bytes += session.holder->held_bytes();
  return bytes;
}

uint64_t Frames::disk_bytes() const {
  uint64_t bytes = 0;
  for (const auto& session : state_->sessions)
    if (session.holder) bytes += session.holder->disk_bytes();
  return bytes;
}

void Frames::read(uint32_t session, uint32_t segment, uint64_t t, uint64_t lags, uint64_t step,
                  std::byte* out) const {
  const State::OfSession& of = state_->of(session);
  LACUNA_ASSERT(lags > 0 && step > 0 && (lags - 1) * step <= t);
  of.holder->read(of.place(segment), t, lags, step, of.cast, out);
}

bool Frames::has(uint32_t session, uint32_t segment) const {
  const State::OfSession& of = state_->sessions.at(session);
  return of.holder && of.places.at(segment) != UINT32_MAX;
}

uint64_t Frames::resident_rows() const { return state_->rows; }

uint64_t Frames::resident_row(uint32_t session, uint32_t segment, uint64_t t) const {
  const State::OfSession& of = state_->of(session);
  return of.first[of.place(segment)] + t;
}

void Frames::read_rows(uint32_t session, uint32_t segment, uint64_t first, uint64_t count,
                       std::byte* out) const {
  const State::OfSession& of = state_->of(session);
  of.holder->read_rows(of.place(segment), first, count, out);
}

}  // namespace lacuna
