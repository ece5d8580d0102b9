// Implementation of prompt_builder.h and of prompt.h's picture loading.
#include "engine/prompt_builder.h"

#include <cstring>

#include "engine/digest.h"

namespace minicpm {
namespace {

// Appends `count` copies of the fill token between two markers.
void AppendView(std::string& out, const char* open, const char* close, int64_t count) {
  out += open;
  for (int64_t i = 0; i < count; ++i) out += "<unk>";
  out += close;
}

SliceConfig SliceConfigOf(const ModelConfig& c, const PromptOptions& options) {
  SliceConfig s;
  s.max_slices = options.max_slices.value_or(static_cast<int>(c.max_slices));
  s.scale_resolution = static_cast<int>(c.scale_resolution);
  s.patch = static_cast<int>(c.vision.patch_px);
  s.divisor = s.patch;
  s.slice_mode = c.slice_mode;
  return s;
}

// A picture far longer than wide is one view of many patches, whose attention grows with their square: bounded here.
// 16384 is 16 times a square view; a 1 : 100,000 picture still fits.
Status CheckViewSize(const ImageInput& image, const SlicePlan& plan, const SliceConfig& slicing) {
  constexpr int64_t kMaxPatches = 16384;
  for (const Size size : {plan.overview, plan.cols > 0 ? plan.slice : plan.overview}) {
    const int64_t n = int64_t{size.width} / slicing.patch * (size.height / slicing.patch);
    if (n > kMaxPatches) {
      return Fail(ErrorCode::kResourceExhausted,
                  Printable(image.name, 400) + ": a picture of " + std::to_string(image.image.width) + " x " +
                      std::to_string(image.image.height) + " pixels gives a view of " + std::to_string(n) +
                      " patches, more than " + std::to_string(kMaxPatches));
    }
  }
  return {};
}

// Finds the views' places: every start marker is followed by exactly Q fill tokens. Only the builder writes these
// special tokens (user text cannot), so the order of the places is the order of the views.
Status FindSpans(const PlaceholderTokens& t, int64_t n_queries, Prompt& prompt) {
  size_t media = 0;
  int view = 0;
  const auto n = static_cast<int64_t>(prompt.ids.size());
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = prompt.ids[static_cast<size_t>(i)];
    if (id != t.image_start && id != t.slice_start) continue;
    int64_t run = 0;
    while (i + 1 + run < n && prompt.ids[static_cast<size_t>(i + 1 + run)] == t.fill) ++run;
    if (run != n_queries || media >= prompt.media.size()) {
      return Fail(ErrorCode::kInvalidArgument, "the prompt's picture placeholders do not match its pictures");
    }
    prompt.spans.push_back({i + 1, run, media, view});
    if (++view == prompt.media[media].plan.n_views()) {
      view = 0;
      ++media;
    }
    i += run;
  }
  if (media != prompt.media.size()) {
    return Fail(ErrorCode::kInvalidArgument, "the prompt's picture placeholders do not match its pictures");
  }
  return {};
}

}  // namespace

std::shared_ptr<const ImageInput> MakeImageInput(std::string name, Image image) {
  auto input = std::make_shared<ImageInput>();
  input->name = std::move(name);
  input->image = std::move(image);
  Sha256 hash;
  const int32_t size[2] = {input->image.width, input->image.height};
  hash.Update(std::as_bytes(std::span(size)));
  hash.Update(std::as_bytes(std::span(input->image.rgb)));
  input->digest = hash.Finish();
  return input;
}

Result<std::shared_ptr<const ImageInput>> LoadImageInput(const std::string& path, const ImageLimits& limits) {
  MINICPM_ASSIGN(Image image, LoadImage(path, limits));
  return MakeImageInput(path, std::move(image));
}

int64_t Prompt::n_media_tokens() const {
  int64_t n = 0;
  for (const MediaSpan& span : spans) n += span.n;
  return n;
}

Result<PlaceholderTokens> FindPlaceholderTokens(const Tokenizer& tokenizer) {
  PlaceholderTokens t{};
  const std::pair<const char*, int32_t*> wanted[] = {
      {"<image>", &t.image_start}, {"</image>", &t.image_end},        {"<slice>", &t.slice_start},
      {"</slice>", &t.slice_end},  {"<image_id>", &t.image_id_start}, {"</image_id>", &t.image_id_end},
      {"<unk>", &t.fill},
  };
  for (const auto& [text, id] : wanted) {
    *id = tokenizer.AddedTokenId(text);
    if (*id < 0) {
      return Fail(ErrorCode::kCorrupt,
                  std::string("the tokenizer has no special token ") + text + ", which this family's pictures need");
    }
  }
  return t;
}

std::string PlaceholderText(const SlicePlan& plan, int64_t n_queries, bool use_image_id, int64_t image_index) {
  std::string s;
  if (use_image_id) s += "<image_id>" + std::to_string(image_index) + "</image_id>";
  AppendView(s, "<image>", "</image>", n_queries);
  for (int row = 0; row < plan.rows; ++row) {
    if (row > 0) s += '\n';
    for (int col = 0; col < plan.cols; ++col) AppendView(s, "<slice>", "</slice>", n_queries);
  }
  return s;
}

Result<Prompt> BuildPrompt(const ModelConfig& config, const FamilyTraits& traits, const Tokenizer& tokenizer,
                           const PlaceholderTokens& tokens, std::span<const Message> messages,
                           const PromptOptions& options) {
  if (options.max_slices.has_value() && (*options.max_slices < 1 || *options.max_slices > 256)) {
    return Fail(ErrorCode::kInvalidArgument,
                "the number of slices must be 1 to 256, but is " + std::to_string(*options.max_slices));
  }
  Prompt prompt;
  const bool use_image_id = options.use_image_id.value_or(config.use_image_id);
  std::vector<ChatMessage> chat;
  for (const Message& message : messages) {
    ChatMessage& out = chat.emplace_back();
    out.role = message.role;
    out.reasoning = message.reasoning;
    out.tool_calls = message.tool_calls;
    for (const MessagePart& part : message.parts) {
      if (part.image == nullptr) {
        out.parts.push_back({part.text, false});
        continue;
      }
      PromptMedia media;
      media.image = part.image;
      media.slice_config = SliceConfigOf(config, options);
      media.plan = PlanSlices({part.image->image.width, part.image->image.height}, media.slice_config);
      MINICPM_TRY(CheckViewSize(*part.image, media.plan, media.slice_config));
      out.parts.push_back({PlaceholderText(media.plan, config.resampler.n_queries, use_image_id,
                                           static_cast<int64_t>(prompt.media.size())),
                           true});
      prompt.media.push_back(std::move(media));
    }
  }
  TemplateOptions template_options;
  template_options.thinking = options.thinking;
  template_options.tools_json = options.tools_json;
  MINICPM_ASSIGN(const RenderedPrompt rendered, RenderChat(traits.template_family, chat, template_options));
  const std::vector<TextPiece> pieces = rendered.Pieces();
  prompt.ids = tokenizer.Encode(pieces);
  prompt.starts_inside_think = traits.opens_think_itself && options.thinking == Thinking::kOn;
  MINICPM_TRY(FindSpans(tokens, config.resampler.n_queries, prompt));
  return prompt;
}

}  // namespace minicpm
