"""The command line: each command is a thin shell over a function of the package. Errors are one line and exit code 2."""

import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from hajax import cache as plan_cache

app = typer.Typer(
    name="hajax",
    help="Hybrid linear-attention language models with fused, statically planned delta-rule kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cache_app = typer.Typer(name="cache", help="The plans stored on this machine.", no_args_is_help=True)
app.add_typer(cache_app)
sim_app = typer.Typer(name="sim", help="The emulated Ascend chip: run, check, count and time a kernel.", no_args_is_help=True)
app.add_typer(sim_app)

_INTERRUPTED = 130
_Result = TypeVar("_Result")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from hajax import __version__

        print(__version__)
        raise typer.Exit()


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Debug = False,
) -> None:
    pass


@app.command()
def generate(
    model: Annotated[Path | None, typer.Option(help="A Hugging Face folder; the shipped demo model when absent.")] = None,
    prompt: Annotated[str | None, typer.Option(help="The text to go on from.")] = None,
    prompt_file: Annotated[str | None, typer.Option("--prompt-file", help="A file with the text; - for standard input.")] = None,
    source: Annotated[str | None, typer.Argument(metavar="[-]", help="- reads the prompt from standard input.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 128,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    top_k: Annotated[int | None, typer.Option()] = None,
    top_p: Annotated[float | None, typer.Option()] = None,
    seed: Annotated[int, typer.Option()] = 0,
    chat: Annotated[bool, typer.Option("--chat", help="Wrap the prompt as a user's message by the chat template.")] = False,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16; the checkpoint's own when absent.")] = None,
    implementation: Annotated[
        str | None, typer.Option(help="cpu, xla or sim (the emulated Ascend chip); the best that runs when absent.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="With --implementation sim: a chip of `hajax sim targets`.", show_default="ascend310p1"),
    ] = None,
    backend: Annotated[str | None, typer.Option(help="torch (on the CPU) or npu (torch_npu); JAX when absent.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Generate text from a prompt, streaming it as it comes."""
    from hajax import _generate_command

    text = _prompt(prompt, prompt_file, source)
    request = _generate_command.Request(
        model=model, prompt=text, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p,
        seed=seed, chat=chat, dtype=dtype, implementation=implementation, target=target, backend=backend,
    )  # fmt: skip
    stream = None if as_json else lambda piece: print(piece, end="", flush=True)
    result = _interruptible(lambda: _generate_command.run(request, stream))
    if as_json:
        print(json.dumps(result))
        return
    print()
    print(_generate_command.describe(result), file=sys.stderr)


def _prompt(prompt: str | None, prompt_file: str | None, source: str | None) -> str:
    if source is not None and source != "-":
        raise ValueError(f"argument: expected - (standard input) or nothing, got {source!r}; a prompt goes after --prompt")
    if source == "-" and prompt_file is None:
        prompt_file = "-"
    if (prompt is None) == (prompt_file is None):
        raise ValueError("prompt: expected exactly one of --prompt TEXT, --prompt-file FILE and -")
    if prompt is not None:
        return prompt
    assert prompt_file is not None
    try:
        if prompt_file == "-":
            return sys.stdin.buffer.read().decode()
        return Path(prompt_file).read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"--prompt-file: expected UTF-8 text in {prompt_file}, got byte {error.start} wrong") from None
    except OSError as error:
        raise ValueError(f"--prompt-file: cannot read {prompt_file} ({error.strerror})") from None


@app.command()
def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Say what is installed, what of it works, and why not."""
    from hajax import report

    facts = report.diagnose()
    if as_json:
        print(json.dumps(facts))
    else:
        _print_facts(facts)
    raise typer.Exit(0 if facts["ok"] else 1)


@app.command()
def selftest(
    backend: Annotated[
        str, typer.Option(help="npu (an Ascend device), torch (torch on the CPU) or sim (the emulated chip).")
    ] = "npu",
    large: Annotated[
        bool | None, typer.Option("--large/--small", help="Also sizes of whole models, for their times; on npu when absent.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Runs of each case; the time is their median.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare every operator with the CPU, time it, and print a block for an issue. Exit code 1 when one is wrong."""
    from hajax import _selftest, _sim_command

    request = _selftest.Request(backend=backend, large=large, repeats=repeats)
    facts = _interruptible(lambda: _selftest.run(request))
    if as_json:
        print(json.dumps(facts))
    else:
        _sim_command.show(_selftest.describe(facts))
        print(_selftest.paste(facts))
    raise typer.Exit(0 if facts["ok"] else 1)


def _print_facts(facts: dict[str, Any], indent: str = "") -> None:
    for name, value in facts.items():
        if isinstance(value, dict):
            print(f"{indent}{name}:")
            _print_facts(value or {"(none)": ""}, indent + "  ")
        else:
            shown = " ".join(map(str, value)) if isinstance(value, list) else "not installed" if value is None else value
            print(f"{indent}{name}: {shown}")


@app.command()
def check(
    case: Annotated[str, typer.Argument(help='For example "T=150 B=2 Hk=2 Hv=4 Dk=16 Dv=24 decay=mixed lengths=150,70".')],
    implementation: Annotated[str | None, typer.Option(help="cpu, xla or sim; cpu and xla when absent.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run one conformance case against the fp64 token recurrence."""
    import dataclasses

    from hajax import conformance

    parsed = conformance.parse(case)
    names = [implementation] if implementation else ["cpu", "xla"]
    results = [dataclasses.asdict(conformance.check(parsed, name)) for name in names]
    if as_json:
        print(json.dumps(results))
        return
    for result in results:
        print(
            f"{result['implementation']}: "
            f"output NMSE {result['output_nmse']:.2e} (largest error {result['output_max_error']:.2e}), "
            f"state NMSE {result['state_nmse']:.2e} (largest error {result['state_max_error']:.2e})"
        )


@app.command()
def profile(
    model_config: Annotated[
        str, typer.Option("--model-config", metavar="NAME|FILE", help="A known model's name, or a config.json.")
    ],
    tokens: Annotated[
        str | None, typer.Option(help="The prompt's length, or several with commas; those of published runs when absent.")
    ] = None,
    target: Annotated[str, typer.Option(help="A chip of `hajax sim targets`.")] = "ascend310p1",
    schedule: Annotated[str | None, typer.Option(help="Of the delta rule; the chip's default when absent.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Model a whole prefill on an Ascend chip: time to first token and energy, layer by layer."""
    from hajax import _profile_command, _sim_command

    request = _profile_command.Request(model_config=model_config, tokens=tokens, target=target, schedule=schedule)
    report = _interruptible(lambda: _profile_command.run(request))
    if not report["fits"]:
        print(f"hajax: warning: {_profile_command.does_not_fit(report)}", file=sys.stderr)
    if as_json:
        print(json.dumps(report))
    else:
        _sim_command.show(_profile_command.describe(report))


@app.command()
def tune(
    tokens: Annotated[str, typer.Option(help="Lengths, with commas.")] = "1,16,64,256,1024,4096,16384",
    heads: Annotated[str, typer.Option(metavar="HkxHv,...", help="Key and value heads.")] = "16x16,16x32",
    mechanism: Annotated[str, typer.Option(help="Members of the family, with commas.")] = "gated_delta_rule,kda",
    dtype: Annotated[str, typer.Option(help="Of inputs and output, with commas.")] = "float32,bfloat16",
    dim: Annotated[int, typer.Option(help="Head dimension, Dk = Dv.")] = 128,
    batch: Annotated[int, typer.Option(min=1, help="Rows of a call.")] = 1,
    budget: Annotated[float | None, typer.Option(metavar="SECONDS", help="Stop after so long; what was found stays.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be measured.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure CPU plan choices on this machine and store those that beat the planner's; later plans take them."""
    from hajax import _tune_command

    request = _tune_command.Request(
        tokens=tokens, heads=heads, mechanism=mechanism, dtype=dtype, dim=dim, batch=batch, budget=budget, dry_run=dry_run
    )
    report = _interruptible(lambda: _tune_command.run(request))
    print(json.dumps(report) if as_json else "\n".join(_tune_command.describe(report)))


@cache_app.command("show")
def cache_show(as_json: Json = False, debug: Debug = False) -> None:
    """List the stored plans, and the choices that were measured."""
    from hajax import planner, plans, report, tuned

    rows: list[dict[str, str]] = []
    for path, _, text in plan_cache.entries():
        try:
            rows.append({"file": str(path), "plan": report.summary(plans.from_json(text))})
        except ValueError as error:
            rows.append({"file": str(path), "plan": f"unreadable ({error}); rebuilt when next needed"})
    choices = []
    for path, key, text in plan_cache.entries(plan_cache.TUNED):
        try:
            shape, found = json.loads(key)["shape"], tuned.from_json(text)
            what = f"T={shape['tokens']} heads {shape['key_heads']}/{shape['value_heads']} {shape['input_dtype']}"
            choices.append({"file": str(path), "choice": f"{what}: {planner.describe_choice(found.choice)}"})
        except (ValueError, KeyError) as error:
            choices.append({"file": str(path), "choice": f"unreadable ({error}); measure anew"})
    folder = plan_cache.folder()
    if as_json:
        print(json.dumps({"folder": str(folder) if folder else None, "entries": rows, "tuned": choices}))
        return
    print(f"{folder or 'off (HAJAX_CACHE=0)'}: {len(rows)} plans")
    for row in rows:
        print(f"  {Path(row['file']).name[:12]}  {row['plan']}")
    if choices:
        print(f"{plan_cache.folder(plan_cache.TUNED)}: {len(choices)} measured choices")
    for row in choices:
        print(f"  {Path(row['file']).name[:12]}  {row['choice']}")


@cache_app.command("clear")
def cache_clear(debug: Debug = False) -> None:
    """Remove the stored plans, measured choices, compiled programs and kernels; they are made anew when needed."""
    print(f"{plan_cache.clear()} files removed")


@sim_app.command("run", context_settings={"ignore_unknown_options": True})  # so that -1 is an argument
def sim_run(
    source: Annotated[Path, typer.Argument(help="A kernel's C++ source.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ARGUMENT]...",
            help="The kernel's, in order: an integer, x.npy for an array, z.npy:float16[8,32] for an output that goes to z.npy "
            "(z:... for one that --save keeps; =0 behind it: zeros instead of never-written bytes).",
        ),
    ] = None,
    args: Annotated[bool, typer.Option("--args", help="May stand before the arguments.")] = False,
    kernel: Annotated[str | None, typer.Option(help="Its name; not needed when the source has one.")] = None,
    target: Annotated[str, typer.Option(help="A chip of `hajax sim targets`.")] = "ascend310p1",
    blocks: Annotated[int, typer.Option(min=1, help="Cores to run on.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Host threads; one a CPU when absent.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="No checks of races and of never-written bytes.")] = False,
    counts_only: Annotated[bool, typer.Option("--counts-only", help="No arithmetic: counts and times only.")] = False,
    auto_barriers: Annotated[
        bool, typer.Option("--auto-barriers", help="Put barriers between dependent vector instructions, as a compiler can.")
    ] = False,
    fatal_saturation: Annotated[
        bool, typer.Option("--fatal-saturation", help="A value clamped to its type's range is an error.")
    ] = False,
    define: Annotated[
        list[str] | None, typer.Option("--define", "-D", help="A macro for the compiler: NAME or NAME=VALUE.")
    ] = None,
    include: Annotated[list[Path] | None, typer.Option("--include", "-I", help="A folder of the kernel's own headers.")] = None,
    compiler: Annotated[str | None, typer.Option(help="The host's C++ compiler; $CXX, c++, g++ or clang++ when absent.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for Perfetto, as JSON.")] = None,
    save: Annotated[Path | None, typer.Option(help="A folder for outputs and changed inputs.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile a kernel with the host's compiler and run it on the emulated chip."""
    from hajax import _sim_command
    from hajax.backends import sim

    options = sim.SimOptions(
        threads=threads, check_races=not fast, check_written=not fast, counts_only=counts_only, auto_barriers=auto_barriers,
        fatal_saturation=fatal_saturation, timeline=trace is not None,
    )  # fmt: skip
    request = _sim_command.Request(
        source=source, arguments=arguments or [], kernel=kernel, target=target, blocks=blocks, options=options,
        flags=[*(f"-D{macro}" for macro in define or []), *(f"-I{folder}" for folder in include or [])],
        compiler=compiler, trace=trace, save=save,
    )  # fmt: skip
    try:
        report = _interruptible(lambda: _sim_command.run(request))
    except (sim.SimFault, sim.CompileError) as error:
        _stop(error, as_json, debug)
    if as_json:
        print(json.dumps(report))
    else:
        _sim_command.show(_sim_command.describe(report))


def _stop(error: Exception, as_json: bool, debug: bool) -> NoReturn:
    """What a kernel's author has to read has more than one line."""
    if debug:
        traceback.print_exception(error)
    if as_json:
        kind = getattr(error, "check", "compile")
        print(json.dumps({"error": {"check": kind, "text": str(error)}}))
    print(f"hajax: error: {error}", file=sys.stderr)
    raise typer.Exit(2)


@sim_app.command("targets")
def sim_targets(
    name: Annotated[str | None, typer.Argument(help="One chip: its whole table, with the source of every value.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the chips, or what is known of one and how far it can be trusted."""
    from hajax import _sim_command

    report = _sim_command.target_report(name)
    if as_json:
        print(json.dumps(report))
    else:
        _sim_command.show(_sim_command.describe_targets(report))


@sim_app.command("header")
def sim_header(
    source: Annotated[Path, typer.Argument(help="A kernel's C++ source.")],
    into: Annotated[Path, typer.Option(help="The folder for aclrtlaunch_<kernel>.h.")] = Path(),
    debug: Debug = False,
) -> None:
    """Write the header with which a host program launches a kernel that is linked into it."""
    from hajax import _sim_command

    for path in _sim_command.launch_header(source, into):
        print(path)


@sim_app.command("flags")
def sim_flags(
    target: Annotated[str, typer.Option(help="A chip of `hajax sim targets`.")] = "ascend310p1", debug: Debug = False
) -> None:
    """Print a C++ compiler's flags for a host program with kernels: c++ -std=c++17 main.cpp kernel.cpp $(hajax sim flags)."""
    import shlex

    from hajax.backends import sim

    print(shlex.join((*sim.LINE_FLAGS, *sim.compile_flags(target), *sim.link_flags())))


def _interruptible(work: Callable[[], _Result]) -> _Result:
    """Runs `work` on another thread, so that this one sees Ctrl-C at once, during a compilation in C++ too."""
    outcome: list[_Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(timeout=0.1)
    if failure:
        raise failure[0]
    return outcome[0]


def _interrupt(*_: Any) -> NoReturn:
    """Ctrl-C ends the process here and now: an exception could be swallowed by whatever C++ or a finaliser is under way.

    Nothing is left half-written, as files are written under a temporary name and renamed.
    """
    os.write(2, b"\n")
    os._exit(_INTERRUPTED)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning is one line, without the code that gave it."""
    line = " ".join(str(message).split()).removeprefix("hajax: ").removeprefix("hajax ")
    if "persistent compilation cache" in line:
        line += "; `hajax cache clear` removes what is damaged"
    print(f"hajax: warning: {line}", file=sys.stderr)


def _fail(error: BaseException, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    else:
        line = " ".join(str(error).split()) or type(error).__name__
        print(f"hajax: error: {line}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    """Entry point of the `hajax` command."""
    debug = "--debug" in sys.argv
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    if not debug:
        warnings.showwarning = _show_warning
    try:
        sys.exit(app(standalone_mode=False))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (ValueError, TypeError, OSError, RuntimeError, NotImplementedError, MemoryError) as error:
        _fail(error, debug)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the command line parser's own errors have it
            raise
        text = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(text, file=sys.stderr)
            sys.exit(2)
        _fail(ValueError(f"{text} (hajax --help says what there is)"), debug)


if __name__ == "__main__":
    main()
