// One step of a transform: rows of numbers in, rows of numbers out.
//
// Three kinds, by what a row of the result needs:
//   pointwise, window-local   its own row:  normalise, scale, symlog, split_relu, cast, crop,
//                             resize, unsqueeze, columns
//   neighbour                 rows around it (the halo):  difference, smooth, basis
//   whole-segment             a statistic of many rows, then its own:  max_norm, standardise,
//                             whiten; all rows:  python
//
//   normalise   {mean: 127, scale: 255}       (x - mean) / scale, a true division
//   scale       {by: 2}                       x * by
//   symlog      {}                            sign(x) * log(1 + |x|)
//   split_relu  {}                            [max(x, 0), max(-x, 0)] side by side on the last axis
//   cast        {dtype: bf16}                 f32, bf16 (rounded), u8 (whole numbers 0 to 255 only,
//                                             else an Error; round: true rounds and cuts off)
//   crop        {y: 0, x: 0, height: h, width: w}   of the last two axes
//   resize      {height: h, width: w}         the same, by the mean over each new pixel's area
//   unsqueeze   {axis: 0}                     one more axis of length 1 in a row
//   columns     {take: [0, 2]}                of the last axis
//   difference  {lag: 1}                      x[t] - x[t - lag]; 0 where there is no such row
//   smooth      {sigma: 2, causal: false}     Gaussian over rows, cut off at 4 sigma; at the ends
//                                             weights are divided by the sum of those that remain
//   basis       {functions: 5, lags: 15}      raised cosines over the past: out[t, c * n + k] =
//                                             sum over l of b[k, l] * x[t - l, c], b[k, l] = (1 +
//                                             cos(pi (l - k d) / d)) / 2 within d, d = (lags - 1) /
//                                             (n - 1); rows before the first count as 0
//   max_norm    {over: segment, rows: train}  x / max |x|
//   standardise {over: segment, rows: train}  (x - mean) / sd, column by column
//   whiten      {epsilon: 1e-3, and the same} spatial frequencies of the last two axes get the same
//                                             power (whiten_op.cpp)
//   python      FILE.py:FUNCTION              what the function makes of all rows of a segment
//
// Arithmetic is f32; statistics are taken in f64.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lacuna/core/array.h"
#include "lacuna/core/dtype.h"
#include "lacuna/core/text/json.h"

namespace lacuna {

// Rows first .. first + count - 1 of a segment, as numbers.
struct RowBlock {
  uint64_t first = 0, count = 0;
  Shape row;                  // shape of one row
  std::vector<float> values;  // [count, row...]

  uint64_t columns() const;  // the product of `row`
  const float* at(uint64_t t) const { return values.data() + (t - first) * columns(); }
  float* at(uint64_t t) { return values.data() + (t - first) * columns(); }
  void resize(uint64_t from, uint64_t rows, Shape row_shape);
};

enum class OpKind { pointwise, neighbour, whole_segment };

// What a whole-segment op learns: by column, or one for all.
struct OpStatistic {
  std::vector<float> shift, divide;  // [columns] or [1]
};

class TransformOp {
 public:
  virtual ~TransformOp() = default;

  virtual OpKind kind() const { return OpKind::pointwise; }
  // The shape of a row of the result. Throws Error for a row that it cannot take.
  virtual Shape out_row(const Shape& row) const { return row; }
  virtual uint64_t rows_before() const { return 0; }
  virtual uint64_t rows_after() const { return 0; }
  // Values that were whole numbers 0 to 255 remain so.
  virtual bool keeps_bytes() const { return false; }
  // What is lost, in words for `plan`; empty: nothing.
  virtual std::string loss() const { return ""; }
  virtual std::optional<DType> casts_to() const { return {}; }

  // Fills `out`, whose rows and shape are set, from `in`, which has its rows and as much of the
  // halo as there is in the trial.
  virtual void apply(const RowBlock& in, RowBlock& out, const OpStatistic& statistic) const = 0;
  // Whole-segment ops: from all rows that count, given one after another; nullptr ends.
  class Learner {
   public:
    virtual ~Learner() = default;
    virtual void add(const float* row, uint64_t columns) = 0;
    virtual OpStatistic finish() const = 0;
  };
  // row: the shape of what it will be given.
  virtual std::unique_ptr<Learner> learner(const Shape& /*row*/) const { return nullptr; }
};

// The op whose setting is the text FILE.py:FUNCTION. It is never applied: whoever has all rows of a
// segment calls Python (transforms.h).
inline constexpr const char* kPythonOp = "python";

// name: as above. Throws Error for an unknown one, and for settings that cannot be.
std::unique_ptr<TransformOp> make_transform_op(const std::string& name, const Json& settings);
// Below: which families of ops there are; null where the name is none of theirs.
std::unique_ptr<TransformOp> make_pointwise_op(const std::string& name, const Json& settings);
std::unique_ptr<TransformOp> make_frame_op(const std::string& name, const Json& settings);
std::unique_ptr<TransformOp> make_neighbour_op(const std::string& name, const Json& settings);
std::unique_ptr<TransformOp> make_statistic_op(const std::string& name, const Json& settings);
std::unique_ptr<TransformOp> make_whiten_op(const std::string& name, const Json& settings);

// Settings of one op, read with names in messages.
class OpSettings {
 public:
  // Throws Error for a key that is not among these.
  OpSettings(std::string op, const Json& json, std::initializer_list<const char*> keys);
  double number(const char* key, std::optional<double> otherwise = {}) const;
  uint64_t count(const char* key, std::optional<uint64_t> otherwise = {}) const;
  std::string text(const char* key, const std::string& otherwise) const;
  bool flag(const char* key) const;  // false unless given
  std::vector<uint64_t> counts(const char* key) const;

 private:
  const Json* find(const char* key) const;
  [[noreturn]] void refuse(const char* key, const char* wanted) const;

  std::string op_;
  Json json_;
};

// over, rows and split, which all ops with a statistic have.
void check_statistic_settings(const OpSettings& settings, const std::string& name);

}  // namespace lacuna
