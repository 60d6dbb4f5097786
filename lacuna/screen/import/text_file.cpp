#include "lacuna/screen/import/text_file.h"

#include <algorithm>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr size_t kBlock = 1 << 18;
constexpr std::string_view kMarkUtf8 = "\xef\xbb\xbf";
constexpr std::string_view kMarkLittle = "\xff\xfe";
constexpr std::string_view kMarkBig = "\xfe\xff";

}  // namespace

TextFile::TextFile(const fs::path& path) : path_(path), file_(path) {}

size_t TextFile::read(std::span<char> text) {
  while (at_ == text_.size())
    if (!next_block()) return 0;
  const size_t count = std::min(text.size(), text_.size() - at_);
  std::copy_n(text_.data() + at_, count, text.data());
  at_ += count;
  return count;
}

bool TextFile::next_block() {
  raw_.resize(kBlock);
  raw_.resize(file_.read(raw_));
  at_ = 0;
  text_.clear();
  if (raw_.empty()) {
    if (!carry_.empty())
      throw Error("{}: its UTF-16 text ends inside a character; it was cut short", path_.string());
    return false;
  }
  std::string_view bytes = raw_;
  if (is_first_) {
    find_encoding(bytes);
    if (encoding_ == Encoding::utf8 && bytes.starts_with(kMarkUtf8))
      bytes.remove_prefix(kMarkUtf8.size());
  }
  if (encoding_ == Encoding::utf8)
    text_ = bytes;
  else
    add_utf16(bytes);
  if (is_first_) ends_in_cr_ = text_.find('\r') != text_.npos && text_.find('\n') == text_.npos;
  if (ends_in_cr_) std::replace(text_.begin(), text_.end(), '\r', '\n');
  is_first_ = false;
  return true;
}

void TextFile::find_encoding(std::string_view head) {
  const auto is_zero = [&](size_t i) { return head[i] == '\0'; };
  const bool has_four = head.size() >= 4;
  if (head.starts_with(kMarkLittle) ||
      (has_four && !is_zero(0) && is_zero(1) && !is_zero(2) && is_zero(3)))
    encoding_ = Encoding::utf16_little;
  else if (head.starts_with(kMarkBig) ||
           (has_four && is_zero(0) && !is_zero(1) && is_zero(2) && !is_zero(3)))
    encoding_ = Encoding::utf16_big;
}

void TextFile::add_utf16(std::string_view bytes) {
  const size_t carried = carry_.size();
  const std::string all = carry_ + std::string(bytes);
  const auto unit_at = [&](size_t i) {
    const uint32_t first = uint8_t(all[i]), second = uint8_t(all[i + 1]);
    return encoding_ == Encoding::utf16_little ? first | second << 8 : first << 8 | second;
  };
  const auto is_high = [](uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; };
  const auto is_low = [](uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; };
  size_t i = 0;
  for (; i + 2 <= all.size(); i += 2) {
    const uint32_t unit = unit_at(i);
    if (unit == 0xfeff && decoded_ == 0 && i == 0) continue;  // the byte order mark
    if (is_high(unit) && i + 4 > all.size()) break;
    const uint32_t next = is_high(unit) ? unit_at(i + 2) : 0;
    if (is_low(unit) || (is_high(unit) && !is_low(next)))
      throw Error("{}: broken UTF-16 at byte {}; save it as UTF-8", path_.string(),
                  decoded_ + i - carried);
    if (is_high(unit)) i += 2;
    add_character(is_high(unit) ? 0x10000 + ((unit - 0xd800) << 10) + (next - 0xdc00) : unit);
  }
  decoded_ += bytes.size();
  carry_ = all.substr(i);
}

void TextFile::add_character(uint32_t code) {
  const auto add = [&](uint32_t byte) { text_ += char(uint8_t(byte)); };
  const auto add_last = [&](int shift) { add(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add_last(6);
  } else {
    add(0xf0 | code >> 18);
    add_last(12);
    add_last(6);
  }
  add_last(0);
}

}  // namespace lacuna
