//! XML elements as values; writing escapes whatever is in them.
#![allow(
    clippy::needless_pass_by_value,
    reason = "a description reads better without references"
)]

use std::borrow::Cow;

use quick_xml::{
    Writer,
    events::{BytesEnd, BytesStart, BytesText, Event},
};

/// An element to be written.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    content: Vec<Content>,
}

#[derive(Clone, Debug)]
enum Content {
    Element(Element),
    Text(String),
    /// Written as it is.
    Markup(String),
}

/// An empty element.
pub(crate) fn element(name: &'static str) -> Element {
    Element {
        name,
        attributes: Vec::new(),
        content: Vec::new(),
    }
}

impl Element {
    pub(crate) fn attribute(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    pub(crate) fn child(mut self, child: Self) -> Self {
        self.content.push(Content::Element(child));
        self
    }

    pub(crate) fn children(self, children: impl IntoIterator<Item = Self>) -> Self {
        children.into_iter().fold(self, Self::child)
    }

    pub(crate) fn text(mut self, text: impl ToString) -> Self {
        self.content.push(Content::Text(text.to_string()));
        self
    }

    /// Adds a piece that is XML already.
    pub(crate) fn markup(mut self, markup: impl Into<String>) -> Self {
        self.content.push(Content::Markup(markup.into()));
        self
    }

    /// The element as text, indented.
    pub(crate) fn to_xml(&self) -> String {
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        // invariant: a Vec takes everything.
        drop(self.write(&mut writer));
        String::from_utf8_lossy(&writer.into_inner()).into_owned()
    }

    fn write(&self, writer: &mut Writer<Vec<u8>>) -> std::io::Result<()> {
        let attributes = self.attributes.iter();
        let start = attributes.fold(BytesStart::new(self.name), |mut start, (name, value)| {
            start.push_attribute((*name, legal(value).as_ref()));
            start
        });
        if self.content.is_empty() {
            return writer.write_event(Event::Empty(start));
        }
        writer.write_event(Event::Start(start))?;
        for content in &self.content {
            match content {
                Content::Element(element) => element.write(writer)?,
                Content::Text(text) => writer.write_event(Event::Text(BytesText::new(&legal(text))))?,
                Content::Markup(markup) => writer.write_event(Event::Text(BytesText::from_escaped(markup)))?,
            }
        }
        writer.write_event(Event::End(BytesEnd::new(self.name)))
    }
}

/// XML has no way to write most control characters, not even escaped.
fn legal(text: &str) -> Cow<'_, str> {
    let bad = |c: char| matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    if text.contains(bad) {
        Cow::Owned(text.replace(bad, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_nest_and_empty_ones_close_themselves() {
        let xml = element("a")
            .attribute("n", 1)
            .child(element("b"))
            .child(element("c").text("x"))
            .to_xml();
        assert_eq!(xml, "<a n=\"1\">\n  <b/>\n  <c>x</c>\n</a>");
    }

    proptest! {
        #[test]
        fn nothing_in_a_value_breaks_out(value in any::<String>()) {
            let xml = element("a").attribute("n", &value).child(element("b").text(&value)).to_xml();
            let read = roxmltree::Document::parse(&xml).unwrap();
            let root = read.root_element();
            prop_assert_eq!(root.attributes().len(), 1);
            prop_assert_eq!(root.children().filter(roxmltree::Node::is_element).count(), 1);
        }
    }
}
