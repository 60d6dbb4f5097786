#include "lacuna/screen/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/text/csv.h"
#include "lacuna/screen/import/table.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna {
namespace {

// All samples that remove some given genes and one or two of the others.
class Combinations : public Candidates {
 public:
  Combinations(std::span<const uint32_t> given, uint32_t chosen, std::vector<uint32_t> pool)
      : given_(given.begin(), given.end()), others_(std::move(pool)), chosen_(chosen) {
    for (const uint32_t gene : given) std::erase(others_, gene);
    const uint64_t n = others_.size();
    size_ = chosen == 1 ? n : n * (n - (n > 0)) / 2;
    widest_ = uint32_t(given.size()) + chosen;
  }

  bool next(std::vector<uint32_t>& genes) override {
    if (done_ == size_) return false;
    ++done_;
    genes = given_;
    genes.push_back(others_[first_]);
    if (chosen_ == 1) {
      ++first_;
      return true;
    }
    genes.push_back(others_[second_]);
    if (++second_ == others_.size()) second_ = ++first_ + 1;
    return true;
  }

 private:
  std::vector<uint32_t> given_, others_;
  uint32_t chosen_;                // of the others: 1 or 2
  size_t first_ = 0, second_ = 1;  // places in others_ of the next sample
  uint64_t done_ = 0;
};

class PairsWith : public Candidates {
 public:
  PairsWith(std::span<const uint32_t> given, const std::vector<uint32_t>& pool) {
    for (const uint32_t gene : given) {
      std::vector<uint32_t> partners = pool;
      std::erase(partners, gene);
      // A pair with an earlier given gene came there, if this one was among its partners.
      if (std::binary_search(pool.begin(), pool.end(), gene))
        for (const auto& earlier : lists_) std::erase(partners, earlier.gene);
      size_ += partners.size();
      lists_.push_back({gene, std::move(partners)});
    }
    widest_ = 2;
  }

  bool next(std::vector<uint32_t>& genes) override {
    while (list_ < lists_.size() && partner_ == lists_[list_].partners.size()) {
      ++list_;
      partner_ = 0;
    }
    if (list_ == lists_.size()) return false;
    genes = {lists_[list_].gene, lists_[list_].partners[partner_++]};
    return true;
  }

 private:
  struct List {
    uint32_t gene;
    std::vector<uint32_t> partners;
  };
  std::vector<List> lists_;
  size_t list_ = 0, partner_ = 0;  // of the next sample
};

class Unmeasured : public Candidates {
 public:
  Unmeasured(const std::function<std::unique_ptr<Candidates>()>& make, MeasuredSets measured)
      : all_(make()), measured_(std::move(measured)) {
    std::vector<uint32_t> genes;
    while (next(genes)) ++size_;
    widest_ = all_->widest();
    all_ = make();
  }

  bool next(std::vector<uint32_t>& genes) override {
    while (all_->next(genes))
      if (!measured_.has(genes)) return true;
    return false;
  }

 private:
  std::unique_ptr<Candidates> all_;
  MeasuredSets measured_;
};

class OfShard : public Candidates {
 public:
  OfShard(std::unique_ptr<Candidates> all, const Shard& shard)
      : all_(std::move(all)), before_(shard.begin(all_->size())) {
    size_ = shard.end(all_->size()) - before_;
    widest_ = all_->widest();
  }

  bool next(std::vector<uint32_t>& genes) override {
    for (; before_ > 0; --before_) all_->next(genes);
    return done_ < size_ && ++done_ && all_->next(genes);
  }

 private:
  std::unique_ptr<Candidates> all_;
  uint64_t before_, done_ = 0;  // those that other shards have before these
};

// The lines of a file, without their ends.
class Lines {
 public:
  explicit Lines(const fs::path& path) : path_(path), file_(path) { rewind(); }

  void rewind() {
    rest_ = {reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()};
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
    number_ = 0;
  }

  // False after the last line.
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    ++number_;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    if (end > kLongestLine)
      throw Error("{}: a line of over 1 MB; write one sample a line", where());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return true;
  }
  std::string where() const { return fmt::format("{}:{}", path_.string(), number_); }

 private:
  static constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  static constexpr size_t kLongestLine = 1 << 20;

  fs::path path_;
  MappedFile file_;
  std::string_view rest_;
  uint64_t number_ = 0;
};

class ListedSamples : public Candidates {
 public:
  ListedSamples(const fs::path& path, const Names& names) : lines_(path), names_(names) {
    std::vector<uint32_t> genes;
    while (next(genes)) {
      ++size_;
      widest_ = std::max(widest_, uint32_t(genes.size()));
    }
    if (size_ == 0) throw Error("{}: no samples; write one a line, by gene names", path.string());
    lines_.rewind();
  }

  bool next(std::vector<uint32_t>& genes) override {
    std::string_view line;
    while (lines_.next(line))
      if (read_line(line, genes)) return true;
    return false;
  }

 private:
  // False for a line that holds no sample.
  bool read_line(std::string_view rest, std::vector<uint32_t>& genes) {
    genes.clear();
    bool is_wild_type = false, is_sample = false;
    while (const auto word = next_word(rest)) {
      is_sample = true;
      if (*word == "-" && !names_.find("-")) {
        is_wild_type = true;
        continue;
      }
      const uint32_t gene = find_gene(names_, without_apostrophe(*word), where());
      if (std::find(genes.begin(), genes.end(), gene) == genes.end()) genes.push_back(gene);
    }
    if (is_wild_type && !genes.empty())
      throw Error("{}: '-' means that nothing is removed, but there are genes beside it", where());
    return is_sample;
  }

  // Nothing at the end of the line, or where a comment begins.
  std::optional<std::string> next_word(std::string_view& rest) const {
    constexpr std::string_view kSeparators = ", \t\r";
    rest.remove_prefix(std::min(rest.find_first_not_of(kSeparators), rest.size()));
    if (rest.empty() || rest.front() == '#') return {};
    if (rest.front() == '"') {
      std::string word = quoted_word(rest);
      if (!rest.empty() && kSeparators.find(rest.front()) == kSeparators.npos)
        throw Error("{}: something stands right behind \"{}\"; put a comma between", where(), word);
      return word;
    }
    std::string word(rest.substr(0, rest.find_first_of(kSeparators)));
    rest.remove_prefix(word.size());
    // "VPS8 (YAL002W)" is one gene, as messages and reports write it.
    if (const size_t close = rest.find(')'); rest.starts_with(" (") && close != rest.npos)
      if (const std::string whole = word + std::string(rest.substr(0, close + 1));
          names_.look_up(whole).match == Names::Match::shown) {
        rest.remove_prefix(close + 1);
        return whole;
      }
    return word;
  }

  // A name in quotes; a quote inside it is doubled.
  std::string quoted_word(std::string_view& rest) const {
    std::string word;
    for (size_t at = 1; at < rest.size(); ++at) {
      const bool is_quote = rest[at] == '"';
      if (is_quote && (at + 1 == rest.size() || rest[at + 1] != '"')) {
        rest.remove_prefix(at + 1);
        return word;
      }
      word += rest[at];
      if (is_quote) ++at;
    }
    throw Error("{}: a quote begins and does not end; write a quote in a name as two", where());
  }

  std::string where() const { return lines_.where(); }

  Lines lines_;
  const Names& names_;
};

// The separator after gene_1, in a header that begins so; nothing for another line.
std::optional<char> separator_behind_gene_1(std::string_view line) {
  for (const std::string_view word : {"gene_1", "\"gene_1\""}) {
    if (!line.starts_with(word)) continue;
    const std::string_view rest = line.substr(word.size());
    if (rest.empty() || rest == "\r") return ',';
    if (rest.front() == ',' || rest.front() == '\t') return rest.front();
  }
  return {};
}

class TableOfSamples : public Candidates {
 public:
  TableOfSamples(const fs::path& path, char separator, const Names& names)
      : source_({path, separator}), names_(names) {
    open();
    while (columns_ < table_->header().size() &&
           table_->header()[columns_] == fmt::format("gene_{}", columns_ + 1))
      ++columns_;
    std::vector<uint32_t> genes;
    while (next(genes)) {
      ++size_;
      widest_ = std::max(widest_, uint32_t(genes.size()));
    }
    if (size_ == 0) throw Error("{}: no samples behind its head; write one a line", path.string());
    open();
  }

  bool next(std::vector<uint32_t>& genes) override {
    genes.clear();
    if (!table_->next()) return false;
    for (size_t column = 0; column < columns_; ++column) {
      const std::string_view cell = trimmed(table_->cells()[column]);
      if (cell.empty()) continue;
      const uint32_t gene = find_gene(names_, cell, table_->where());
      if (std::find(genes.begin(), genes.end(), gene) == genes.end()) genes.push_back(gene);
    }
    return true;
  }

 private:
  void open() { table_ = std::make_unique<TableReader>(source_); }

  TableSource source_;
  const Names& names_;
  std::unique_ptr<TableReader> table_;
  size_t columns_ = 0;  // gene_1 to gene_<columns_>, the first ones
};

void check_regular(const fs::path& path) {
  if (fs::exists(path) && !fs::is_regular_file(path))
    throw Error("{}: not a regular file; it is read twice, so write the samples into one",
                path.string());
}

// Behind what a shard says of itself.
std::string first_line(const fs::path& path) {
  Lines lines(path);
  std::string_view line;
  lines.next(line);
  if (line.starts_with(kShardMark)) lines.next(line);
  return std::string(line);
}

}  // namespace

std::unique_ptr<Candidates> shard_of(std::unique_ptr<Candidates> all, const Shard& shard) {
  if (shard.is_all()) return all;
  return std::make_unique<OfShard>(std::move(all), shard);
}

std::vector<uint32_t> all_genes(uint32_t count) {
  std::vector<uint32_t> genes(count);
  std::iota(genes.begin(), genes.end(), 0u);
  return genes;
}

std::vector<uint32_t> listed_genes(const fs::path& file, const Names& names) {
  const auto lines = listed_samples(file, names);
  std::vector<uint32_t> genes, line;
  while (lines->next(line)) genes.insert(genes.end(), line.begin(), line.end());
  std::sort(genes.begin(), genes.end());
  genes.erase(std::unique(genes.begin(), genes.end()), genes.end());
  return genes;
}

std::unique_ptr<Candidates> all_pairs(std::vector<uint32_t> pool) {
  return std::make_unique<Combinations>(std::span<const uint32_t>(), 2, std::move(pool));
}

std::unique_ptr<Candidates> all_pairs_with(std::span<const uint32_t> given,
                                           const std::vector<uint32_t>& pool) {
  if (given.empty()) throw Error("all pairs with no gene: name one or more");
  if (std::set(given.begin(), given.end()).size() < given.size())
    throw Error("all pairs with a gene that is named twice: name different ones");
  return std::make_unique<PairsWith>(given, pool);
}

std::unique_ptr<Candidates> all_triples_with(std::span<const uint32_t> given,
                                             const std::vector<uint32_t>& pool) {
  if (given.empty() || given.size() > 2)
    throw Error("all triples with {} genes: name one gene or two", given.size());
  if (given.size() == 2 && given[0] == given[1])
    throw Error("all triples with a gene that is named twice: name one gene or two different ones");
  return std::make_unique<Combinations>(given, 3 - uint32_t(given.size()), pool);
}

MeasuredSets::MeasuredSets(const Samples& samples, uint32_t gene_count,
                           std::span<const uint64_t> labels) {
  GeneSets sets(samples, gene_count);
  const auto values = samples.labels.as<float>();  // [S, L]
  const uint64_t count = samples.label_count();
  for (uint64_t s = 0; s < samples.size(); ++s) {
    const bool is_measured = std::any_of(labels.begin(), labels.end(), [&](uint64_t label) {
      return !std::isnan(values[s * count + label]);
    });
    if (is_measured) keys_.insert(hash64(std::as_bytes(std::span(sets.read(s)))));
  }
}

bool MeasuredSets::has(std::vector<uint32_t> genes) const {
  std::sort(genes.begin(), genes.end());
  return keys_.contains(hash64(std::as_bytes(std::span(genes))));
}

std::unique_ptr<Candidates> unmeasured(const std::function<std::unique_ptr<Candidates>()>& make,
                                       MeasuredSets measured) {
  return std::make_unique<Unmeasured>(make, std::move(measured));
}

std::unique_ptr<Candidates> listed_samples(const fs::path& file, const Names& names) {
  check_regular(file);
  const auto separator =
      names.find("gene_1") ? std::nullopt : separator_behind_gene_1(first_line(file));
  if (separator) return std::make_unique<TableOfSamples>(file, *separator, names);
  return std::make_unique<ListedSamples>(file, names);
}

uint32_t find_gene(const Names& names, std::string_view name, const std::string& where) {
  if (const auto gene = names.look_up(name)) return gene.index;
  throw Error("{}: {}", where, names.why_not(name));
}

}  // namespace lacuna
