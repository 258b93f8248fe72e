# The recipe for Homebrew on Linux. `dist/build` writes it to the folder of the artefacts with the
# address and the checksum of the archive.
class Touchstone < Formula
  desc "Evaluates AI agents, compares versions and serves the evidence"
  homepage "https://touchstone.invalid"
  url "https://touchstone.invalid/download/touchstone-0.1.0-linux-x86_64.tar.xz"
  version "0.1.0"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on arch: :x86_64
  depends_on :linux

  def install
    bin.install "bin/touchstone"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/touchstone"
    zsh_completion.install "share/zsh/site-functions/_touchstone"
    fish_completion.install "share/fish/vendor_completions.d/touchstone.fish"
  end

  service do
    run [opt_bin/"touchstone", "serve", "--data", var/"touchstone"]
    keep_alive successful_exit: false
    working_dir var/"touchstone"
    log_path var/"log/touchstone.log"
    error_log_path var/"log/touchstone.log"
  end

  def post_install
    (var/"touchstone").mkpath
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/touchstone --version")
    system bin/"touchstone", "demo"
  end
end
