# SPDX-License-Identifier: Apache-2.0
# Doxygen's filter: prints a header with its ordinary comments rewritten as Doxygen comments, or a
# page with links that Doxygen resolves. The sources need none of Doxygen's commands.
#   awk -f docs/doxygen_filter.awk include/keel/keel.h
# The first comment of a header documents the file. Any other comment documents the declaration
# below, or the one on the same line. "/* ---- name ---- */" begins a group of declarations.
# Lines indented by three spaces or more are code, unless they belong to a list.

# Returns |text|, a line inside a comment, in Doxygen's markup; |mark| begins the lines of that
# comment.
function marked_up(text, mark,    indent, before, name) {
  match(text, /^ */)
  indent = RLENGTH
  if (text ~ /^ *- /) in_list = 1
  else if (indent < 3) in_list = 0
  if (!in_code && !in_list && indent >= 3) {
    in_code = 1
    before = " @code{.cpp}\n" mark
  } else if (in_code && indent < 3) {
    in_code = 0
    before = " @endcode\n" mark
  }
  if (in_code) return before text
  while (match(text, /(^|[ (])\|[*]?[A-Za-z_][][A-Za-z0-9_*]*\|/)) {
    name = substr(text, RSTART, RLENGTH)
    gsub(/\|/, "`", name)
    text = substr(text, 1, RSTART - 1) name substr(text, RSTART + RLENGTH)
  }
  gsub(/</, "\\&lt;", text)
  return before text
}

# Prints |text|, a line of a block comment that may end there, behind |start|.
function print_block(start, text) {
  in_block = text !~ /\*\//
  sub(/ *\*\/.*/, "", text)
  text = start marked_up(text, " *")
  if (!in_block && in_code) text = text "\n * @endcode"
  if (!in_block && in_divider) text = text " @{"
  if (!in_block) in_code = in_list = in_divider = 0
  print text (in_block ? "" : " */")
}

# Returns the link |link|, "[text](target)", as Doxygen resolves it from any page: by the name that
# the target's heading has below. A link to a file that is no page
# of the reference becomes its text.
function resolved(link,    text, target, anchor) {
  gsub(/`/, "", link)
  text = target = link
  sub(/\]\(.*/, "", text)
  sub(/.*\]\(/, "", target)
  if (target ~ /^http|\.svg\)$/) return link
  if (target ~ /README\.md/ || target !~ /\.md\)$|#/) return substr(text, 2)
  if (target !~ /#/) return link
  anchor = target
  sub(/.*#/, "", anchor)
  sub(/\.md#.*|#.*/, "", target)
  sub(/.*\//, "", target)
  return text "](#" (target == "" ? page : target) "_" anchor
}

# ---- pages

FNR == 1 {
  page = FILENAME
  is_page = sub(/\.md$/, "", page)
  sub(/.*\//, "", page)
}
is_page && /^```/ { is_code = !is_code }
is_page && is_code { print; next }
is_page {
  line = ""
  while (match($0, /\[[^]]*\]\([^) ]*\)/)) {
    line = line substr($0, 1, RSTART - 1) resolved(substr($0, RSTART, RLENGTH))
    $0 = substr($0, RSTART + RLENGTH)
  }
  line = line $0
  if (line ~ /^##+ /) {
    name = tolower(line)
    sub(/^#+ /, "", name)
    gsub(/[^a-z0-9 _-]/, "", name)
    gsub(/ /, "-", name)
    line = line " {#" page "_" name "}"
  }
  print line
  next
}

# ---- headers

NR == 1 { next }  # the licence

in_block {
  sub(/^ *\*\/$/, " * */")
  sub(/^ *\*/, "")
  print_block(" *", $0)
  next
}

/^\/\* ---- / {
  if (has_group) print "/** @} */"
  has_group = in_divider = 1
  name = substr($0, 9)
  sub(/ -+( \*\/)?$/, "", name)
  print "/** @name " toupper(substr(name, 1, 1)) substr(name, 2)
  print_block(" *", /\*\/$/ ? " */" : "")
  covering = ""
  next
}

/^ *\/\/ ---- / { next }

/^ *\/\// {
  if (NR == 2) print "/// @file"
  sub(/^ *\/\//, "")
  print "///" marked_up($0, "///")
  in_lines = 1
  next
}

in_lines {
  if (in_code) print "/// @endcode"
  in_code = in_list = in_lines = 0
}

/^ *\/\*/ {
  if (NR == 2) print "/** @file"
  sub(/^ *\/\*/, "")
  print_block(NR == 2 ? " *" : "/**", $0)
  covering = ""
  is_commented = 1
  next
}

# keel::Device rather than keel::v0::Device; a comment on the namespace stays with it.
/^inline namespace v0 {$/ { $0 = "namespace v0 {}" }
/^}  \/\/ namespace v0$/ { next }

# A comment may cover several functions, or slots of a table, that follow each other.
/^KEEL_API|^  (keel_status|void) \(\*/ {
  match($0, /keel_[a-z0-9_]*\(|\(\*[a-z_]*\)/)
  name = substr($0, RSTART, RLENGTH)
  gsub(/[(*)]/, "", name)
  if (covering != "") print "/** Declared together with `" covering "`. */"
  else if (is_commented) covering = name
}
/^[#}]|^ *$/ { covering = "" }
{ is_commented = 0 }

/^[^#}].*[^ ] +\/\/ / {
  match($0, /[^ ] +\/\/ /)
  $0 = substr($0, 1, RSTART) "  ///< " marked_up(substr($0, RSTART + RLENGTH), "")
}

/^[^#}].*[^ ] +\/\* / {
  match($0, /[^ ] +\/\* /)
  print_block(substr($0, 1, RSTART) "  /**< ", substr($0, RSTART + RLENGTH))
  next
}

{ print }

END { if (has_group) print "/** @} */" }
