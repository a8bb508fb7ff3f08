//! Progress on standard error; hidden if it is not a terminal.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar up to `total` things, or a spinner with a count if that is not known.
pub fn bar(total: Option<u64>, what: impl Into<Cow<'static, str>>) -> ProgressBar {
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
    let template = match total {
        Some(_) => "{msg} {wide_bar:.dim} {percent:>3} %  {human_pos} of {human_len}  {eta} left",
        None => "{msg} {spinner} {human_pos}  {elapsed}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("a template that is fixed"));
    bar.with_message(what)
}
