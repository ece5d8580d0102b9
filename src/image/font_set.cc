// Implementation of font_set.h.
#include "image/font_set.h"

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace minicpm {
namespace {

constexpr size_t kMaxRemembered = 4096;  // characters whose font is known; then it starts anew

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Library = std::unique_ptr<FT_LibraryRec_, Deleter<FT_Done_FreeType>>;
using Face = std::unique_ptr<FT_FaceRec_, Deleter<FT_Done_Face>>;
using CharSet = std::unique_ptr<FcCharSet, Deleter<FcCharSetDestroy>>;

// A font that may be used; opened when its first character comes.
struct Candidate {
  std::string file;
  int index = 0;
  CharSet characters;  // null: not known, ask the open font
  bool tried = false;
  Face face;
};

// The installed scalable fonts, the best match for "sans" first, those that add no character left out. Does not touch
// fontconfig's current configuration, which belongs to the whole process.
std::vector<Candidate> InstalledFonts() {
  std::vector<Candidate> fonts;
  const std::unique_ptr<FcConfig, Deleter<FcConfigDestroy>> config(FcInitLoadConfigAndFonts());
  if (config == nullptr) return fonts;
  const std::unique_ptr<FcPattern, Deleter<FcPatternDestroy>> wanted(FcPatternCreate());
  if (wanted == nullptr) return fonts;
  FcPatternAddString(wanted.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>("sans"));
  FcPatternAddBool(wanted.get(), FC_SCALABLE, FcTrue);
  FcConfigSubstitute(config.get(), wanted.get(), FcMatchPattern);
  FcDefaultSubstitute(wanted.get());
  FcResult result = FcResultNoMatch;
  const std::unique_ptr<FcFontSet, Deleter<FcFontSetDestroy>> sorted(
      FcFontSort(config.get(), wanted.get(), FcTrue, nullptr, &result));
  if (sorted == nullptr) return fonts;
  for (const FcPattern* font : std::span(sorted->fonts, static_cast<size_t>(std::max(sorted->nfont, 0)))) {
    FcChar8* file = nullptr;
    int index = 0;
    FcCharSet* characters = nullptr;
    FcBool scalable = FcFalse;
    FcPatternGetBool(font, FC_SCALABLE, 0, &scalable);
    FcPatternGetInteger(font, FC_INDEX, 0, &index);
    if (scalable == FcFalse || FcPatternGetString(font, FC_FILE, 0, &file) != FcResultMatch ||
        FcPatternGetCharSet(font, FC_CHARSET, 0, &characters) != FcResultMatch) {
      continue;
    }
    Candidate candidate;
    candidate.file = reinterpret_cast<const char*>(file);
    candidate.index = index;
    candidate.characters.reset(FcCharSetCopy(characters));
    fonts.push_back(std::move(candidate));
  }
  return fonts;
}

}  // namespace

struct FontSet::Impl {
  Library library;  // before its faces: it goes last
  std::vector<Candidate> fonts;
  std::unordered_map<char32_t, size_t> known;  // character -> index into fonts
  int size_px = 16;

  FT_Face Open(Candidate& font) {
    if (!font.tried) {
      font.tried = true;
      FT_Face face = nullptr;
      if (FT_New_Face(library.get(), font.file.c_str(), font.index, &face) == 0) font.face.reset(face);
      if (font.face != nullptr && !FT_IS_SCALABLE(font.face.get())) font.face.reset();
      if (font.face != nullptr) FT_Set_Pixel_Sizes(font.face.get(), 0, static_cast<FT_UInt>(size_px));
    }
    return font.face.get();
  }

  size_t FontOf(char32_t c) {
    if (const auto found = known.find(c); found != known.end()) return found->second;
    if (known.size() >= kMaxRemembered) known.clear();
    size_t best = 0;
    for (size_t i = 0; i < fonts.size(); ++i) {
      if (fonts[i].characters != nullptr && FcCharSetHasChar(fonts[i].characters.get(), c) == FcFalse) continue;
      FT_Face face = Open(fonts[i]);
      if (face == nullptr || FT_Get_Char_Index(face, c) == 0) continue;
      best = i;
      break;
    }
    known.emplace(c, best);
    return best;
  }
};

FontSet::FontSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FontSet::~FontSet() = default;

Result<std::unique_ptr<FontSet>> FontSet::Create(const std::string& font_file) {
  auto impl = std::make_unique<Impl>();
  FT_Library library = nullptr;
  if (FT_Init_FreeType(&library) != 0) return Fail(ErrorCode::kResourceExhausted, "FreeType cannot be started");
  impl->library.reset(library);
  if (!font_file.empty()) {
    Candidate font;
    font.file = font_file;
    FT_Face face = nullptr;
    const FT_Error error = FT_New_Face(library, font_file.c_str(), 0, &face);
    font.face.reset(error == 0 ? face : nullptr);
    font.tried = true;
    if (error == FT_Err_Cannot_Open_Resource) {
      return Fail(ErrorCode::kNotFound, Printable(font_file, 400) + ": this font file cannot be opened");
    }
    if (error != 0 || !FT_IS_SCALABLE(face)) {
      return Fail(ErrorCode::kCorrupt, Printable(font_file, 400) +
                                           ": expected a font with outlines (TrueType, OpenType), found another file");
    }
    impl->fonts.push_back(std::move(font));
  } else {
    impl->fonts = InstalledFonts();
    // The first one must work: it stands in for what no font has.
    while (!impl->fonts.empty() && impl->Open(impl->fonts.front()) == nullptr) impl->fonts.erase(impl->fonts.begin());
    if (impl->fonts.empty()) {
      return Fail(ErrorCode::kNotFound,
                  "text cannot be drawn: no scalable font is installed (on Debian for example fonts-dejavu-core, and "
                  "fonts-noto-cjk for Chinese)");
    }
  }
  std::unique_ptr<FontSet> set(new FontSet(std::move(impl)));
  set->SetSize(16);
  return set;
}

void FontSet::SetSize(int size_px) {
  impl_->size_px = size_px;
  for (const Candidate& font : impl_->fonts) {
    if (font.face != nullptr) FT_Set_Pixel_Sizes(font.face.get(), 0, static_cast<FT_UInt>(size_px));
  }
}

FontSet::Metrics FontSet::metrics() {
  const FT_Size_Metrics& m = impl_->fonts.front().face->size->metrics;
  Metrics metrics;
  metrics.ascent = static_cast<int>((m.ascender + 63) >> 6);
  metrics.descent = static_cast<int>((-m.descender + 63) >> 6);
  metrics.line = std::max(static_cast<int>((m.height + 63) >> 6), metrics.ascent + metrics.descent);
  return metrics;
}

int64_t FontSet::Advance(char32_t previous, char32_t c) {
  const size_t font = impl_->FontOf(c);
  FT_Face face = impl_->fonts[font].face.get();
  const FT_UInt glyph = FT_Get_Char_Index(face, c);
  int64_t advance = 0;
  if (FT_Load_Glyph(face, glyph, FT_LOAD_NO_BITMAP) == 0) advance = face->glyph->advance.x;
  if (previous != 0 && FT_HAS_KERNING(face) && impl_->FontOf(previous) == font) {
    FT_Vector kerning = {};
    if (FT_Get_Kerning(face, FT_Get_Char_Index(face, previous), glyph, FT_KERNING_DEFAULT, &kerning) == 0) {
      advance += kerning.x;
    }
  }
  // A hostile font may say anything.
  return std::clamp<int64_t>(advance, 0, int64_t{64} * 4 * impl_->size_px);
}

FontSet::Glyph FontSet::Render(char32_t c) {
  FT_Face face = impl_->fonts[impl_->FontOf(c)].face.get();
  Glyph glyph;
  if (FT_Load_Glyph(face, FT_Get_Char_Index(face, c), FT_LOAD_NO_BITMAP | FT_LOAD_RENDER) != 0) return glyph;
  const FT_Bitmap& bitmap = face->glyph->bitmap;
  if (bitmap.pixel_mode != FT_PIXEL_MODE_GRAY || bitmap.pitch <= 0 || bitmap.buffer == nullptr) return glyph;
  glyph.width = static_cast<int>(bitmap.width);
  glyph.height = static_cast<int>(bitmap.rows);
  glyph.stride = bitmap.pitch;
  glyph.left = face->glyph->bitmap_left;
  glyph.top = face->glyph->bitmap_top;
  glyph.coverage = std::span(bitmap.buffer, static_cast<size_t>(bitmap.pitch) * bitmap.rows);
  return glyph;
}

}  // namespace minicpm
