#include "lacuna/recording/window_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/transforms/transforms.h"

namespace lacuna {
namespace {

// One field, mapped; rows are compared when they are first used.
class MappedRows {
 public:
  explicit MappedRows(const Field& field)
      : field_(field), rows_(field.map()), checked_(std::make_unique<CheckedRows>(field)) {}

  const Field& field() const { return field_; }
  const std::byte* row(uint64_t t) const {
    checked_->check_mapped(t, 1, rows_.bytes().data());
    return rows_.bytes().data() + t * field_.row_bytes();
  }

 private:
  Field field_;
  Array rows_;
  std::unique_ptr<CheckedRows> checked_;
};

// An input: a field of the recording, or one that is made of the rows that a window reads.
struct InputRows {
  std::unique_ptr<MappedRows> own;  // null: made
  std::string name;
  uint64_t columns = 0, bytes = 0;
  bool is_counts = false;  // rows that become one are summed, not averaged
};

struct SegmentRows {
  std::unique_ptr<MappedRows> counts, validity;
  std::vector<InputRows> inputs;

  template <class F>
  void for_each(F&& f) const {
    if (counts) f(*counts);
    if (validity) f(*validity);
    for (const InputRows& input : inputs)
      if (input.own) f(*input.own);
  }
};

// The sum of `step` rows from t on, of some columns; out [columns], scratch as large.
void sum_rows(const MappedRows& rows, uint64_t t, uint64_t step, std::span<const uint32_t> columns,
              float* out, std::vector<float>& scratch) {
  read_columns(rows.field(), rows.row(t), columns, out);
  scratch.resize(columns.size());
  for (uint64_t k = 1; k < step; ++k) {
    read_columns(rows.field(), rows.row(t + k), columns, scratch.data());
    for (size_t i = 0; i < columns.size(); ++i) out[i] += scratch[i];
  }
}

// `step` rows from t on as one: the mean, of counts the sum.
void merge_rows(const MappedRows& rows, uint64_t t, uint64_t step, bool is_counts, float* out,
                std::vector<float>& scratch) {
  read_row(rows.field(), rows.row(t), out);
  if (step == 1) return;
  const uint64_t columns = rows.field().columns();
  std::vector<double> sum(out, out + columns);
  scratch.resize(columns);
  for (uint64_t k = 1; k < step; ++k) {
    read_row(rows.field(), rows.row(t + k), scratch.data());
    for (uint64_t c = 0; c < columns; ++c) sum[c] += double(scratch[c]);
  }
  for (uint64_t c = 0; c < columns; ++c) out[c] = float(is_counts ? sum[c] : sum[c] / double(step));
}

// 1 where all `step` rows from t on are valid. A field of [T] goes for all units.
void valid_rows(const MappedRows& rows, uint64_t t, uint64_t step,
                std::span<const uint32_t> columns, uint8_t* out) {
  std::fill_n(out, columns.size(), uint8_t(1));
  for (uint64_t k = 0; k < step; ++k) and_flags(rows.field(), rows.row(t + k), columns, out);
}

}  // namespace

struct WindowFields::State {
  Windows windows;
  std::vector<std::vector<SegmentRows>> segments;  // [session][segment]

  explicit State(const Windows& all) : windows(all) {
    const auto& sessions = windows.recording().sessions();
    for (const Session& session : sessions) segments.emplace_back(session.segments.size());
    const WindowSettings& settings = windows.settings();
    for (const WindowRun& run : windows.runs()) {
      SegmentRows& rows = segments[run.session][run.segment];
      if (rows.counts) continue;
      const Segment& segment = sessions[run.session].segments[run.segment];
      rows.counts = std::make_unique<MappedRows>(segment.field(settings.counts));
      if (const Field* validity = windows.validity_of(run.session, run.segment))
        rows.validity = std::make_unique<MappedRows>(*validity);
      for (const LaggedField& input : settings.inputs)
        rows.inputs.push_back(open_input(sessions[run.session], segment, input.field));
      check_columns(sessions[run.session], segments[run.session], segment, rows);
    }
  }

  // A batch has one part a session, whose rows are as wide in all segments.
  static void check_columns(const Session& session, const std::vector<SegmentRows>& all,
                            const Segment& segment, const SegmentRows& rows) {
    for (size_t g = 0; g < all.size(); ++g)
      for (size_t i = 0; all[g].counts && i < rows.inputs.size(); ++i)
        if (all[g].inputs[i].columns != rows.inputs[i].columns)
          throw Error(
              "input '{}' of session '{}' has {} columns in segment '{}', but {} in '{}'; choose "
              "segments that agree (segments)",
              rows.inputs[i].name, session.name, rows.inputs[i].columns, segment.name,
              all[g].inputs[i].columns, session.segments[g].name);
  }

  InputRows open_input(const Session& session, const Segment& segment,
                       const std::string& name) const {
    InputRows input;
    input.name = name;
    const Transforms* const transforms = windows.transforms();
    if (transforms && transforms->has(name)) {
      input.columns = 1;
      for (const uint64_t extent : transforms->row_shape(session, segment, name))
        input.columns *= extent;
      input.bytes = transforms->source_bytes(session, segment, name);
      input.is_counts = transforms->role(segment, name) == FieldRole::counts;
    } else {
      input.own = std::make_unique<MappedRows>(segment.field(name));
      input.columns = input.own->field().columns();
      input.is_counts = input.own->field().role == FieldRole::counts;
    }
    return input;
  }
  template <class F>
  void for_each(F&& f) const {
    for (const auto& session : segments)
      for (const SegmentRows& rows : session) rows.for_each(f);
  }

  void size_part(SessionPart& part, uint64_t count) const {
    const WindowSettings& settings = windows.settings();
    part.windows = count;
    part.units = windows.units_of(part.session).size();
    part.counts.resize(count * settings.target_rows * part.units);
    part.validity.resize(part.counts.size());
    part.inputs.resize(settings.inputs.size());
    for (size_t i = 0; i < settings.inputs.size(); ++i)
      part.inputs[i].resize(count * settings.inputs[i].lags * columns_of(i, part.session));
  }
  uint64_t columns_of(size_t input, uint32_t session) const {
    for (const SegmentRows& rows : segments[session])
      if (rows.counts) return rows.inputs[input].columns;
    return 0;
  }
  void fill_targets(SessionPart& part, uint64_t b, const Window& window,
                    std::vector<float>& scratch) const;
  void fill_inputs(SessionPart& part, uint64_t b, const Window& window,
                   std::vector<float>& scratch) const;
  void make_input(const InputRows& input, const LaggedField& lagged, const Window& window,
                  float* out) const;
};

void WindowFields::State::fill_targets(SessionPart& part, uint64_t b, const Window& window,
                                       std::vector<float>& scratch) const {
  const SegmentRows& rows = segments[window.session][window.segment];
  const auto units = windows.units_of(window.session);
  const uint64_t step = windows.settings().step, targets = windows.settings().target_rows;
  for (uint64_t r = 0; r < targets; ++r) {
    float* const counts = part.counts.data() + (b * targets + r) * part.units;
    uint8_t* const valid = part.validity.data() + (b * targets + r) * part.units;
    const uint64_t t = window.t + r * step;
    sum_rows(*rows.counts, t, step, units, counts, scratch);
    if (rows.validity)
      valid_rows(*rows.validity, t, step, units, valid);
    else
      std::fill_n(valid, part.units, uint8_t(1));
    if (rows.counts->field().nan_rows == 0) continue;
    for (uint64_t u = 0; u < part.units; ++u)
      if (!valid[u] && !std::isfinite(counts[u])) counts[u] = 0;
  }
}

void WindowFields::State::fill_inputs(SessionPart& part, uint64_t b, const Window& window,
                                      std::vector<float>& scratch) const {
  const SegmentRows& rows = segments[window.session][window.segment];
  const WindowSettings& settings = windows.settings();
  for (size_t i = 0; i < settings.inputs.size(); ++i) {
    const LaggedField& input = settings.inputs[i];
    float* const out = part.inputs[i].data() + b * input.lags * rows.inputs[i].columns;
    if (!rows.inputs[i].own) {
      make_input(rows.inputs[i], input, window, out);
      continue;
    }
    const uint64_t newest = newest_row(window, input, settings.step);
    for (uint64_t lag = 0; lag < input.lags; ++lag)
      merge_rows(*rows.inputs[i].own, newest - lag * settings.step, settings.step,
                 rows.inputs[i].is_counts, out + lag * rows.inputs[i].columns, scratch);
  }
}

// All rows of a window at once: they share their halo.
void WindowFields::State::make_input(const InputRows& input, const LaggedField& lagged,
                                     const Window& window, float* out) const {
  const Session& session = windows.recording().sessions()[window.session];
  const uint64_t step = windows.settings().step, columns = input.columns;
  const uint64_t oldest = newest_row(window, lagged, step) - (lagged.lags - 1) * step;
  const RowBlock block = windows.transforms()->warm_rows(session, session.segments[window.segment],
                                                         input.name, oldest, lagged.lags * step);
  for (uint64_t lag = 0; lag < lagged.lags; ++lag) {
    const uint64_t t = oldest + (lagged.lags - 1 - lag) * step;
    for (uint64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (uint64_t k = 0; k < step; ++k) sum += double(block.at(t + k)[c]);
      out[lag * columns + c] = float(input.is_counts ? sum : sum / double(step));
    }
  }
}

WindowFields::WindowFields(const Windows& windows) : state_(std::make_unique<State>(windows)) {}
WindowFields::~WindowFields() = default;
WindowFields::WindowFields(WindowFields&&) noexcept = default;
WindowFields& WindowFields::operator=(WindowFields&&) noexcept = default;

uint64_t WindowFields::bytes() const {
  uint64_t total = 0;
  state_->for_each([&](const MappedRows& rows) { total += rows.field().bytes(); });
  for (const auto& session : state_->segments)
    for (const SegmentRows& rows : session)
      for (const InputRows& input : rows.inputs) total += input.bytes;
  return total;
}

void WindowFields::fill(WindowBatch& batch) const {
  const Windows& windows = state_->windows;
  batch.ptr.assign(1, 0);
  size_t parts = 0;
  for (uint64_t begin = 0; begin < batch.windows.size(); ++parts) {
    const uint32_t session = windows.at(batch.windows[begin]).session;
    const auto [first, last] = windows.of_session(session);
    uint64_t end = begin;
    while (end < batch.windows.size() && batch.windows[end] >= first && batch.windows[end] < last)
      ++end;
    if (batch.parts.size() <= parts) batch.parts.emplace_back();
    batch.parts[parts].session = session;
    state_->size_part(batch.parts[parts], end - begin);
    batch.ptr.push_back(int32_t(end));
    begin = end;
  }
  batch.parts.resize(parts);
  for (size_t s = 1; s < parts; ++s)
    LACUNA_ASSERT(batch.parts[s - 1].session < batch.parts[s].session);
  std::vector<float> scratch;
  for (size_t s = 0; s < parts; ++s)
    for (int32_t i = batch.ptr[s]; i < batch.ptr[s + 1]; ++i) {
      const Window window = windows.at(batch.windows[size_t(i)]);
      state_->fill_targets(batch.parts[s], uint64_t(i - batch.ptr[s]), window, scratch);
      state_->fill_inputs(batch.parts[s], uint64_t(i - batch.ptr[s]), window, scratch);
    }
}

uint64_t WindowFields::input_columns(size_t input, uint32_t session) const {
  return state_->columns_of(input, session);
}

void order_by_session(const Windows& windows, std::vector<uint64_t>& batch) {
  std::ranges::stable_sort(batch, {}, [&](uint64_t window) { return windows.at(window).session; });
}

}  // namespace lacuna
