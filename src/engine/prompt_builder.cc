// Implementation of prompt_builder.h and of prompt.h's counts.
#include "engine/prompt_builder.h"

#include <algorithm>

#include "video/composite.h"

namespace minicpm {
namespace {

// Appends `count` copies of a token between two markers.
void AppendView(std::string& out, const char* open, const char* close, int64_t count, const char* fill) {
  out += open;
  for (int64_t i = 0; i < count; ++i) out += fill;
  out += close;
}

SliceConfig SliceConfigOf(const ModelConfig& c, const PromptOptions& options, int default_slices) {
  SliceConfig s;
  s.max_slices = options.max_slices.value_or(default_slices);
  s.scale_resolution = static_cast<int>(c.scale_resolution);
  s.patch = static_cast<int>(c.vision.patch_px);
  s.divisor = s.patch;
  s.slice_mode = c.slice_mode;
  if (!c.merger.has_value()) return s;
  // Whole merged windows; without slicing a picture is resized all the same.
  s.divisor = s.patch * (options.downsample.value_or(static_cast<int>(c.downsample)) == 16 ? 4 : 2);
  s.rounding = ResizeRounding::kTorchvision;
  if (!s.slice_mode) s.max_slices = 1;
  s.slice_mode = true;
  return s;
}

// A picture far longer than wide is one view of many patches, whose attention grows with their square: bounded here.
// 16384 is 16 times a square view; a 1 : 100,000 picture still fits.
Status CheckViewSize(const std::string& name, Size picture, const SlicePlan& plan, const SliceConfig& slicing) {
  constexpr int64_t kMaxPatches = 16384;
  for (const Size size : {plan.overview, plan.cols > 0 ? plan.slice : plan.overview}) {
    const int64_t n = int64_t{size.width} / slicing.patch * (size.height / slicing.patch);
    if (n > kMaxPatches) {
      return Fail(ErrorCode::kResourceExhausted,
                  Printable(name, 400) + ": a picture of " + std::to_string(picture.width) + " x " +
                      std::to_string(picture.height) + " pixels gives a view of " + std::to_string(n) +
                      " patches, more than " + std::to_string(kMaxPatches));
    }
  }
  return {};
}

// Makes one prompt: placeholders first, then the template's text, then the places of the placeholders among the ids.
class Builder {
 public:
  Builder(const ModelConfig& config, const FamilyTraits& traits, const PlaceholderTokens& tokens,
          const PromptOptions& options, bool use_image_id)
      : config_(config), traits_(traits), tokens_(tokens), options_(options), use_image_id_(use_image_id) {}

  Status AddMessage(const Message& message) {
    ChatMessage& out = chat_.emplace_back();
    out.role = message.role;
    out.reasoning = message.reasoning;
    out.tool_calls = message.tool_calls;
    sound_.reset();
    for (const MessagePart& part : message.parts) {
      if (part.image != nullptr) {
        MINICPM_TRY(AddPicture(part.image, out));
      } else if (part.audio != nullptr) {
        const auto n = static_cast<int64_t>(part.audio->samples.size());
        MINICPM_TRY(AddSound({part.audio, 0, n, n}, out));
      } else if (part.video != nullptr) {
        MINICPM_TRY(AddVideo(part.video, out));
      } else {
        out.parts.push_back({part.text, false});
      }
    }
    if (sound_.has_value()) EndSound();
    return {};
  }

  Result<Prompt> Finish(const Tokenizer& tokenizer) {
    TemplateOptions options;
    options.thinking = options_.thinking;
    options.tools_json = options_.tools_json;
    options.tts = has_sound_;  // the chat helper of o 4.5 does so for every conversation with sound
    MINICPM_ASSIGN(const RenderedPrompt rendered, RenderChat(traits_.template_family, chat_, options));
    const std::vector<TextPiece> pieces = rendered.Pieces();
    prompt_.ids = tokenizer.Encode(pieces);
    prompt_.starts_inside_think = traits_.opens_think_itself && options_.thinking == Thinking::kOn;
    MINICPM_TRY(FindSpans());
    return std::move(prompt_);
  }

 private:
  // A placeholder whose rows are known, in the order of the prompt.
  struct Expected {
    bool sound;
    int64_t n;
    size_t media;
    int64_t row;
    int32_t fill;
  };

  Status AddPicture(const std::shared_ptr<const ImageInput>& image, ChatMessage& out) {
    PromptMedia media;
    media.image = image;
    media.slice_config = SliceConfigOf(config_, options_, static_cast<int>(config_.max_slices));
    const Size size{image->image.width, image->image.height};
    MINICPM_TRY(PlanViews(image->name, size, media));
    const ViewTokens tokens = TokensOf(media);
    out.parts.push_back({PlaceholderText(media.plan, tokens, use_image_id_, n_pictures_++), true});
    ExpectViews(media, tokens);
    prompt_.media.push_back(std::move(media));
    return {};
  }

  // Frames in the order of the prompt, each group with one set of placeholders, and the sound that belongs to it.
  Status AddVideo(const std::shared_ptr<const VideoInput>& video, ChatMessage& out) {
    VideoChoiceOptions choice = options_.video;
    if (traits_.max_frames > 0 && !choice.max_frames.has_value()) choice.max_frames = traits_.max_frames;
    if (traits_.frames_in_one_part && choice.stack > 1) {
      return Fail(
          ErrorCode::kUnsupported,
          Printable(video->name, 400) + ": stacked frames are not supported for family " + FamilyName(config_.family));
    }
    auto groups = ChooseFrames(video->info.n_frames, video->info.fps, traits_.video_rule, choice);
    if (!groups.has_value()) return Annotate(Printable(video->name, 400), std::move(groups).error());
    const bool one_part = traits_.frames_in_one_part;
    if (traits_.video_rule == VideoRule::kWithSound && !one_part) out.join_lines = false;
    // One number for the whole video, before its first frame; counted apart from those of pictures.
    if (one_part) {
      const std::string number = "<image_id>" + std::to_string(n_videos_++) + "</image_id>";
      out.parts.push_back({use_image_id_ ? number : "", true});
    }
    for (VideoGroup& group : *groups) {
      const int64_t n_samples = video->sound != nullptr ? static_cast<int64_t>(video->sound->samples.size()) : 0;
      const int64_t begin = std::min(group.sound_begin, n_samples);
      const int64_t end = std::min(group.sound_end, n_samples);
      const bool has_sound = video->sound != nullptr && !one_part && group.sound_end > group.sound_begin;
      PromptMedia media;
      media.kind = MediaKind::kFrames;
      media.video = video;
      media.slice_config = SliceConfigOf(config_, options_, traits_.frame_slices);
      const Size frame{video->info.width, video->info.height};
      const Size size = group.composite ? CompositeSize(frame, static_cast<int>(group.frames.size())) : frame;
      media.frames = std::move(group);
      MINICPM_TRY(PlanViews(video->name, size, media));
      const ViewTokens tokens = TokensOf(media);
      std::string text = PlaceholderText(media.plan, tokens, false, 0);
      if (one_part) {
        out.parts.back().text += text;
      } else {
        out.parts.push_back({std::move(text), true});
      }
      ExpectViews(media, tokens);
      prompt_.media.push_back(std::move(media));
      if (has_sound) MINICPM_TRY(AddSound({video->sound, begin, end, std::max(end - begin, kLeastSamples)}, out));
    }
    return {};
  }

  Status PlanViews(const std::string& name, Size size, PromptMedia& media) const {
    media.plan = PlanSlices(size, media.slice_config);
    MINICPM_TRY(CheckViewSize(name, size, media.plan, media.slice_config));
    const ViewTokens tokens = TokensOf(media);
    media.n_rows = tokens.overview + (media.plan.n_views() - 1) * tokens.slice;
    return {};
  }

  ViewTokens TokensOf(const PromptMedia& media) const {
    ViewTokens tokens;
    tokens.overview = RowsOfView(config_, media.slice_config, media.plan.overview);
    if (media.plan.cols > 0) tokens.slice = RowsOfView(config_, media.slice_config, media.plan.slice);
    tokens.fill = media.kind == MediaKind::kFrames ? traits_.frame_fill : traits_.image_fill;
    return tokens;
  }

  void ExpectViews(const PromptMedia& media, const ViewTokens& tokens) {
    const int32_t fill = media.kind == MediaKind::kFrames ? tokens_.frame_fill : tokens_.image_fill;
    for (int64_t row = 0; row < media.n_rows; row += expected_.back().n) {
      expected_.push_back({false, row == 0 ? tokens.overview : tokens.slice, prompt_.media.size(), row, fill});
    }
  }

  // One more clip of this message's sound, with its own placeholder.
  Status AddSound(SoundStretch stretch, ChatMessage& out) {
    if (!config_.audio.has_value()) {
      return Fail(ErrorCode::kUnsupported, Printable(stretch.audio->name, 400) + ": this model does not hear (family " +
                                               FamilyName(config_.family) + "), expected pictures, videos and text");
    }
    has_sound_ = true;
    if (!sound_.has_value()) {
      sound_ = prompt_.media.size();
      prompt_.media.emplace_back().kind = MediaKind::kSound;
    }
    PromptMedia& media = prompt_.media[*sound_];
    const int64_t n = RowsOfSound(*config_.audio, stretch.n_padded);
    expected_.push_back({true, n, *sound_, media.n_rows, tokens_.image_fill});
    sound_parts_.push_back({chat_.size() - 1, out.parts.size(), expected_.size() - 1});
    out.parts.push_back({"", true});  // filled by EndSound
    media.n_rows += n;
    media.sound.push_back(std::move(stretch));
    return {};
  }

  // The sound of a message is encoded as one clip, and its rows are dealt out in order. Rounding down happens once
  // there and once per clip in the placeholders, so a row may be over, or (with clips that are not whole tokens long)
  // missing: then the last placeholders are shorter.
  void EndSound() {
    PromptMedia& media = prompt_.media[*sound_];
    media.n_rows = RowsOfSound(*config_.audio, media.n_samples());
    for (const SoundPart& part : sound_parts_) {
      Expected& e = expected_[part.expected];
      e.row = std::min(e.row, media.n_rows);
      e.n = std::min(e.n, media.n_rows - e.row);
      std::string text;
      AppendView(text, "<|audio_start|>", "<|audio_end|>", e.n, traits_.image_fill);
      chat_[part.message].parts[part.part].text = std::move(text);
    }
    sound_parts_.clear();
    sound_.reset();
  }

  // Every start marker is followed by exactly as many fill tokens as were written. Only the builder writes these
  // special tokens (user text cannot), so the order of the places is the order of the placeholders.
  Status FindSpans() {
    size_t next = 0;
    const auto n = static_cast<int64_t>(prompt_.ids.size());
    for (int64_t i = 0; i < n; ++i) {
      const int32_t id = prompt_.ids[static_cast<size_t>(i)];
      const bool sound = id == tokens_.audio_start && id >= 0;
      if (!sound && id != tokens_.image_start && id != tokens_.slice_start) continue;
      if (next == expected_.size()) return Mismatch();
      int64_t run = 0;
      while (i + 1 + run < n && prompt_.ids[static_cast<size_t>(i + 1 + run)] == expected_[next].fill) ++run;
      if (expected_[next].sound != sound || expected_[next].n != run) return Mismatch();
      if (run > 0) prompt_.spans.push_back({i + 1, run, expected_[next].media, expected_[next].row});
      ++next;
      i += run;
    }
    if (next != expected_.size()) return Mismatch();
    return {};
  }

  static Status Mismatch() {
    return Fail(ErrorCode::kInvalidArgument, "the prompt's placeholders do not match its pictures and sounds");
  }

  // The last stretch of a video may be shorter than the encoder likes; the official helper pads it with zeros.
  static constexpr int64_t kLeastSamples = 1600;

  const ModelConfig& config_;
  const FamilyTraits& traits_;
  const PlaceholderTokens& tokens_;
  const PromptOptions& options_;
  const bool use_image_id_;
  Prompt prompt_;
  std::vector<ChatMessage> chat_;
  std::vector<Expected> expected_;
  int64_t n_pictures_ = 0;
  int64_t n_videos_ = 0;
  bool has_sound_ = false;
  std::optional<size_t> sound_;  // the current message's sound, index into media
  struct SoundPart {
    size_t message, part, expected;
  };
  std::vector<SoundPart> sound_parts_;
};

}  // namespace

int64_t PromptMedia::n_views() const {
  if (kind == MediaKind::kSound) return 0;
  const bool many = kind == MediaKind::kFrames && !frames.composite;
  return plan.n_views() * (many ? static_cast<int64_t>(frames.frames.size()) : 1);
}

int64_t PromptMedia::n_samples() const {
  int64_t n = 0;
  for (const SoundStretch& s : sound) n += s.n_padded;
  return n;
}

int64_t Prompt::n_tokens(MediaKind kind) const {
  int64_t n = 0;
  for (const MediaSpan& span : spans) n += media[span.media].kind == kind ? span.n : 0;
  return n;
}

int64_t Prompt::n_views() const {
  int64_t n = 0;
  for (const PromptMedia& m : media) n += m.n_views();
  return n;
}

Result<PlaceholderTokens> FindPlaceholderTokens(const Tokenizer& tokenizer, const FamilyTraits& traits,
                                                bool with_sound) {
  PlaceholderTokens t{};
  const std::pair<const char*, int32_t*> wanted[] = {
      {"<image>", &t.image_start},        {"</image>", &t.image_end},         {"<slice>", &t.slice_start},
      {"</slice>", &t.slice_end},         {"<image_id>", &t.image_id_start},  {"</image_id>", &t.image_id_end},
      {traits.image_fill, &t.image_fill}, {traits.frame_fill, &t.frame_fill},
  };
  t.audio_start = t.audio_end = -1;
  const std::pair<const char*, int32_t*> sound[] = {{"<|audio_start|>", &t.audio_start},
                                                    {"<|audio_end|>", &t.audio_end}};
  std::vector<std::pair<const char*, int32_t*>> all(std::begin(wanted), std::end(wanted));
  if (with_sound) all.insert(all.end(), std::begin(sound), std::end(sound));
  for (const auto& [text, id] : all) {
    *id = tokenizer.AddedTokenId(text);
    if (*id < 0) {
      return Fail(ErrorCode::kCorrupt,
                  std::string("the tokenizer has no special token ") + text + ", which this family's media need");
    }
  }
  return t;
}

int DownsampleOf(const SliceConfig& slicing) {
  const int side = slicing.divisor / slicing.patch;
  return side * side;
}

int64_t RowsOfView(const ModelConfig& config, const SliceConfig& slicing, Size view) {
  if (!config.merger.has_value()) return config.resampler.n_queries;
  return GridOf(view, slicing.patch).count() / DownsampleOf(slicing);
}

std::string PlaceholderText(const SlicePlan& plan, const ViewTokens& tokens, bool use_image_id, int64_t image_index) {
  std::string s;
  if (use_image_id) s += "<image_id>" + std::to_string(image_index) + "</image_id>";
  AppendView(s, "<image>", "</image>", tokens.overview, tokens.fill);
  for (int row = 0; row < plan.rows; ++row) {
    if (row > 0) s += '\n';
    for (int col = 0; col < plan.cols; ++col) AppendView(s, "<slice>", "</slice>", tokens.slice, tokens.fill);
  }
  return s;
}

int64_t RowsOfSound(const AudioConfig& config, int64_t n_samples) {
  const auto piece = [&config](int64_t n) { return config.n_rows(AudioConfig::n_frames(MelFrames(n))); };
  return n_samples / kAudioPieceSamples * piece(kAudioPieceSamples) + piece(n_samples % kAudioPieceSamples);
}

Result<Prompt> BuildPrompt(const ModelConfig& config, const FamilyTraits& traits, const Tokenizer& tokenizer,
                           const PlaceholderTokens& tokens, std::span<const Message> messages,
                           const PromptOptions& options) {
  if (options.max_slices.has_value() && (*options.max_slices < 1 || *options.max_slices > 256)) {
    return Fail(ErrorCode::kInvalidArgument,
                "the number of slices must be 1 to 256, but is " + std::to_string(*options.max_slices));
  }
  if (options.downsample.has_value() && !config.merger.has_value()) {
    return Fail(ErrorCode::kUnsupported,
                std::string("the number of tokens of a view cannot be chosen for family ") + FamilyName(config.family));
  }
  if (options.downsample.has_value() && *options.downsample != 16 && *options.downsample != 4) {
    return Fail(ErrorCode::kInvalidArgument,
                "downsample must be 16 or 4, but is " + std::to_string(*options.downsample));
  }
  bool has_video = false;
  for (const Message& message : messages) {
    for (const MessagePart& part : message.parts) has_video |= part.video != nullptr;
  }
  // The helpers for video pass use_image_id = false for the whole call.
  const bool use_image_id = options.use_image_id.value_or(config.use_image_id && !has_video);
  Builder builder(config, traits, tokens, options, use_image_id);
  for (const Message& message : messages) MINICPM_TRY(builder.AddMessage(message));
  return builder.Finish(tokenizer);
}

}  // namespace minicpm
