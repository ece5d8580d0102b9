// Implementation of native_audio.h. The encoder goes first, whole; then rows are projected a few at a time.
#include "backends/native/native_audio.h"

#include <algorithm>
#include <optional>
#include <string>

#include "os/clock.h"

namespace minicpm {
namespace {

// Rows projected in one piece of work: about 4 GFLOP at E = 4096.
constexpr int64_t kRowsPerPiece = 50;

class AudioJob : public Job {
 public:
  AudioJob(const NativeModel& model, Compute& compute, const WhisperRun::Input& input, Matrix out)
      : model_(model),
        compute_(compute),
        out_(out),
        item_(input.item),
        // Without rows to give, only a live sound has something to do: it remembers.
        encoded_(out.rows == 0 && input.cache == nullptr) {
    if (!encoded_) encoder_.emplace(*model.config().audio, model.audio(), input);
  }

  Result<bool> Step(double deadline_ms) override {
    while (!done()) {
      compute_.arena().Reset();
      Piece();
      if (NowMs() >= deadline_ms) break;
    }
    return done();
  }
  int64_t groups_done() const override { return done() ? 1 : 0; }

 private:
  bool done() const { return encoded_ && row_ == out_.rows; }

  void Piece() {
    if (!encoded_) {
      encoded_ = encoder_->Step(compute_);
      return;
    }
    const AudioConfig& c = *model_.config().audio;
    const int64_t n = std::min(kRowsPerPiece, out_.rows - row_);
    ProjectAudio(compute_, c, model_.audio_projector(), encoder_->output().Rows(row_ * c.pool_step, n * c.pool_step),
                 out_.Rows(row_, n));
    row_ += n;
    if (row_ == out_.rows) Report(compute_, {"aud.pool", -1, item_}, out_);
  }

  const NativeModel& model_;
  Compute& compute_;
  Matrix out_;
  int item_;
  bool encoded_;
  int64_t row_ = 0;  // rows that are final
  std::optional<WhisperRun> encoder_;
};

std::unexpected<Error> Wrong(const std::string& what) { return Fail(ErrorCode::kInvalidArgument, what); }

}  // namespace

AudioStreamId NativeAudioStreams::New(const AudioConfig& config) {
  caches_.emplace(next_, config);
  return next_++;
}

WhisperCache* NativeAudioStreams::Find(AudioStreamId stream) {
  const auto it = caches_.find(stream);
  return it == caches_.end() ? nullptr : &it->second;
}

Result<std::unique_ptr<Job>> NewAudioJob(const NativeModel& model, Compute& compute, NativeAudioStreams& streams,
                                         const AudioRequest& request) {
  if (!model.config().audio.has_value()) return Fail(ErrorCode::kUnsupported, "this model has no audio tower");
  const AudioConfig& c = *model.config().audio;
  WhisperRun::Input input;
  input.mel = request.mel;
  input.item = request.item;
  if (request.mel.rows < 0 || (request.mel.rows > 0 && request.mel.cols != c.n_mels)) {
    return Wrong("mel frames have " + std::to_string(request.mel.cols) + " bins, expected " + std::to_string(c.n_mels));
  }
  const int64_t n_conv = AudioConfig::n_frames(request.mel.rows);
  if (n_conv > c.n_positions) {
    return Wrong("a piece of sound has " + std::to_string(request.mel.rows) + " mel frames, expected at most " +
                 std::to_string(2 * c.n_positions));
  }
  if (request.prefix_frames < 0 || request.suffix_frames < 0) return Wrong("frames to cut away are negative");
  input.cut_front = (int64_t{request.prefix_frames} + 1) / 2;
  input.cut_back = (int64_t{request.suffix_frames} + 1) / 2;
  const int64_t n_frames = n_conv - input.cut_front - input.cut_back;
  if (n_frames < 0 || (n_frames == 0 && input.cut_front + input.cut_back > 0)) {
    return Wrong("nothing is left of " + std::to_string(n_conv) + " frames of sound after " +
                 std::to_string(input.cut_front) + " in front and " + std::to_string(input.cut_back) +
                 " behind are cut away");
  }
  const int64_t n_rows = c.n_rows(n_frames);
  if (request.out.rows != n_rows || (n_rows > 0 && request.out.cols != model.config().decoder.n_embed)) {
    return Wrong("the output of " + std::to_string(request.mel.rows) + " mel frames needs " + std::to_string(n_rows) +
                 " rows of " + std::to_string(model.config().decoder.n_embed));
  }
  if (request.stream >= 0) {
    input.cache = streams.Find(request.stream);
    if (input.cache == nullptr) return Wrong("sound stream " + std::to_string(request.stream) + " does not exist");
    if (n_frames == 0) return Wrong("a chunk of a sound stream has no frames");
  }
  return std::make_unique<AudioJob>(model, compute, input, request.out);
}

}  // namespace minicpm
