# Carries out the part of a Homebrew formula that needs no Homebrew: installs the archive, and runs the test block.
#
#     formula.rb FORMULA.rb FOLDER-OF-THE-ARCHIVE PREFIX
#
# Prints what the formula declares as JSON. A call that Homebrew does not have ends this with an error.

require "fileutils"
require "json"
require "pathname"

class Pathname
  # Of Homebrew: installs files into this folder.
  def install(*files)
    mkpath
    files.flatten.each { |file| FileUtils.cp(file, self) }
  end
end

class Formula
  class << self
    attr_reader :facts, :test_block, :service_block

    def inherited(formula)
      super
      formula.instance_variable_set(:@facts, { depends_on: [] })
    end

    %i[desc homepage url version sha256 license].each do |name|
      define_method(name) { |value| @facts[name] = value }
    end

    def depends_on(value)
      @facts[:depends_on] << value
    end

    def test(&block)
      @test_block = block
    end

    def service(&block)
      @service_block = block
    end
  end

  def initialize(prefix)
    @prefix = Pathname(prefix)
  end

  def bin = @prefix/"bin"
  def opt_bin = @prefix/"bin"
  def var = @prefix/"var"
  def man1 = @prefix/"share/man/man1"
  def bash_completion = @prefix/"etc/bash_completion.d"
  def zsh_completion = @prefix/"share/zsh/site-functions"
  def fish_completion = @prefix/"share/fish/vendor_completions.d"
  def version = self.class.facts[:version]

  def shell_output(command)
    output = `#{command}`
    raise "#{command}: #{$?}" unless $?.success?

    output
  end

  def system(*command)
    raise "#{command}: #{$?}" unless Kernel.system(*command.map(&:to_s), out: File::NULL)
  end

  def assert_match(expected, actual)
    raise "#{expected} is not in #{actual}" unless actual.include?(expected)
  end
end

# The service of a formula: records its settings.
class Service
  attr_reader :facts

  def initialize(formula)
    @formula = formula
    @facts = {}
    instance_eval(&formula.class.service_block)
  end

  %i[run keep_alive working_dir log_path error_log_path].each do |name|
    define_method(name) { |value| @facts[name] = value }
  end

  def opt_bin = @formula.opt_bin
  def var = @formula.var
end

file, archive, prefix = ARGV
load File.expand_path(file)
formula = Touchstone.new(prefix)
Dir.chdir(archive) { formula.install }
formula.post_install
formula.instance_eval(&Touchstone.test_block)
puts JSON.generate(Touchstone.facts.merge(service: Service.new(formula).facts))
