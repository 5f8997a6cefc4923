; A definition is captured under its kind, its name under @name; the first pattern that fits counts.
(class_definition name: (identifier) @name) @class
(function_definition name: (identifier) @name) @function
(module (expression_statement (assignment left: (identifier) @name)) @variable)
(type_alias_statement left: (type (identifier) @name)) @type
