//! The standard output of a command that goes on: lines that stay, and below them a block that is drawn again when it changes.
//! Where the output is no terminal, the block is printed line by line instead: each line that is new.

use std::io::{self, IsTerminal as _, Write};

/// Columns of a terminal that does not say how wide it is.
const COLUMNS: usize = 80;
/// Rows of a terminal that does not say how high it is.
const ROWS: usize = 24;

/// How a line looks on a terminal with colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    /// A heading.
    Bold,
    /// Less important: lines of another program.
    Dim,
    Error,
}

impl Style {
    /// The sequence that switches it on.
    fn begin(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Error => "\x1b[31m",
        }
    }
}

/// The output of a command.
pub(crate) struct Screen<W = io::Stdout> {
    output: W,
    is_terminal: bool,
    has_colors: bool,
    size: fn() -> (usize, usize),
    /// The lines of the block.
    block: Vec<String>,
    /// Columns of each line of the block on the screen.
    drawn: Vec<usize>,
}

impl Screen {
    /// The standard output. It has colors on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let has_colors = is_terminal && !forbidden;
        Self::new(io::stdout(), is_terminal, has_colors, terminal_size)
    }
}

/// Columns and rows of the terminal.
fn terminal_size() -> (usize, usize) {
    match terminal_size::terminal_size() {
        Some((width, height)) => (width.0.into(), height.0.into()),
        None => (COLUMNS, ROWS),
    }
}

impl<W: Write> Screen<W> {
    fn new(output: W, is_terminal: bool, has_colors: bool, size: fn() -> (usize, usize)) -> Self {
        Self { output, is_terminal, has_colors, size, block: Vec::new(), drawn: Vec::new() }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.styled(Style::Plain, text)
    }

    /// Prints a line that stays, in a style.
    pub(crate) fn styled(&mut self, style: Style, text: &str) -> io::Result<()> {
        let mut frame = self.erase();
        for line in text.split('\n') {
            frame += &self.paint(style, line);
            frame.push('\n');
        }
        frame += &self.draw();
        self.flush(&frame)
    }

    /// Replaces the block. The first line is its heading.
    pub(crate) fn show(&mut self, block: Vec<String>) -> io::Result<()> {
        if block == self.block {
            return Ok(());
        }
        if self.is_terminal {
            let mut frame = self.erase();
            self.block = block;
            frame += &self.draw();
            return self.flush(&frame);
        }
        let mut new = String::new();
        for line in block.iter().skip(1).filter(|line| !self.block.contains(line)) {
            new.push_str(line);
            new.push('\n');
        }
        self.block = block;
        self.flush(&new)
    }

    /// Removes the block, at the end.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let frame = self.erase();
        self.block.clear();
        self.flush(&frame)
    }

    fn paint(&self, style: Style, line: &str) -> String {
        if self.has_colors && style != Style::Plain {
            format!("{}{line}\x1b[0m", style.begin())
        } else {
            line.to_owned()
        }
    }

    /// The sequence that removes the block from the screen.
    fn erase(&mut self) -> String {
        let (columns, _) = (self.size)();
        // A terminal that became narrower has wrapped the lines.
        let rows: usize = self.drawn.drain(..).map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        // A terminal may have echoed a key, such as Ctrl-C, so that the cursor is not in the first column.
        if rows == 0 { String::new() } else { format!("\r\x1b[{rows}A\x1b[J") }
    }

    /// The block in as much room as there is. A line that wraps would break the count of rows.
    fn draw(&mut self) -> String {
        if !self.is_terminal || self.block.is_empty() {
            return String::new();
        }
        let (columns, rows) = (self.size)();
        // A line of its own for the cursor, and one for what is printed above.
        let room = rows.saturating_sub(2).max(1);
        let mut frame = String::new();
        let mut drawn = Vec::new();
        let cut = self.block.len().saturating_sub(room);
        let shown = if cut > 0 { room - 1 } else { self.block.len() };
        for (number, line) in self.block.iter().take(shown).enumerate() {
            let style = if number == 0 { Style::Bold } else { Style::Plain };
            let line = shortened(line, columns);
            drawn.push(line.chars().count());
            frame += &self.paint(style, &line);
            frame.push('\n');
        }
        if cut > 0 {
            let more = ["  and ", &(self.block.len() - shown).to_string(), " more"].concat();
            drawn.push(more.chars().count());
            frame += &more;
            frame.push('\n');
        }
        self.drawn = drawn;
        frame
    }

    fn flush(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }
}

/// A line without control characters, in at most this number of columns.
fn shortened(line: &str, columns: usize) -> String {
    let line: String = line.chars().filter(|character| !character.is_control()).collect();
    // One column is left free: some terminals wrap when the last one is used.
    let room = columns.saturating_sub(1);
    if line.chars().count() <= room {
        return line;
    }
    let mut short: String = line.chars().take(room.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(is_terminal: bool, has_colors: bool) -> Screen<Vec<u8>> {
        Screen::new(Vec::new(), is_terminal, has_colors, || (20, 5))
    }

    fn taken(screen: &mut Screen<Vec<u8>>) -> String {
        String::from_utf8(std::mem::take(&mut screen.output)).unwrap()
    }

    fn block(lines: &[&str]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_stay_above_a_block_that_is_drawn_again() {
        let mut screen = screen(true, false);
        screen.show(block(&["OBJECTS", "  a"])).unwrap();
        assert_eq!(taken(&mut screen), "OBJECTS\n  a\n");
        screen.line("one").unwrap();
        assert_eq!(taken(&mut screen), "\r\x1b[2A\x1b[Jone\nOBJECTS\n  a\n");
        screen.show(block(&["OBJECTS", "  a"])).unwrap();
        assert_eq!(taken(&mut screen), "", "nothing has changed");
        screen.close().unwrap();
        assert_eq!(taken(&mut screen), "\r\x1b[2A\x1b[J");
    }

    #[test]
    fn a_block_fits_into_the_terminal() {
        let mut screen = screen(true, false);
        screen
            .show(block(&["OBJECTS", "  a line of more than twenty characters", "  b\x1b[2J", "  c", "  d"]))
            .unwrap();
        assert_eq!(taken(&mut screen), "OBJECTS\n  a line of more t…\n  and 3 more\n");
        screen.line("one").unwrap();
        assert!(taken(&mut screen).starts_with("\r\x1b[3A\x1b[Jone\n"));
    }

    #[test]
    fn a_block_that_a_narrower_terminal_has_wrapped_is_removed_whole() {
        let mut screen = screen(true, false);
        screen.show(block(&["OBJECTS", "  a line of 19 colu"])).unwrap();
        screen.size = || (10, 5);
        taken(&mut screen);
        screen.close().unwrap();
        assert_eq!(taken(&mut screen), "\r\x1b[3A\x1b[J");
    }

    #[test]
    fn without_a_terminal_only_new_lines_of_the_block_are_printed() {
        let mut screen = screen(false, false);
        screen.show(block(&["OBJECTS", "  a pending"])).unwrap();
        screen.show(block(&["OBJECTS", "  a pending", "  b pending"])).unwrap();
        screen.show(block(&["OBJECTS", "  a done", "  b pending"])).unwrap();
        screen.line("end").unwrap();
        screen.close().unwrap();
        assert_eq!(taken(&mut screen), "  a pending\n  b pending\n  a done\nend\n");
    }

    #[test]
    fn only_a_terminal_with_colors_gets_them() {
        let mut colors = screen(true, true);
        colors.styled(Style::Error, "error").unwrap();
        assert_eq!(taken(&mut colors), "\x1b[31merror\x1b[0m\n");
        let mut plain = screen(true, false);
        plain.styled(Style::Error, "error").unwrap();
        assert_eq!(taken(&mut plain), "error\n");
    }
}
